#include "leat/comm/transports/world.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "leat/csp/wait/identity.h"

namespace leat::comm {
namespace {

OpenOptions checked(const OpenOptions& options) {
  const auto refuse = [](const std::string& what) {
    throw std::invalid_argument("leat: comm::open: " + what);
  };
  if (options.deadline <= Duration::zero()) refuse("deadline is not positive");
  if (options.threads < 1)
    refuse("threads is " + std::to_string(options.threads) + "; give 1 or more");
  if (options.message_limit == 0) refuse("message_limit is 0; it is at least 1 byte");
  if (const auto& directory = options.recorder_directory; !directory.empty()) {
    std::error_code error;
    if (!std::filesystem::is_directory(directory, error)) {
      refuse("recorder_directory: there is no directory " + directory.string());
    }
  }
  const LinkModel& link = options.link;
  if (!(link.bandwidth >= 0)) refuse("the bandwidth of the link is negative or no number");
  if (link.alpha < Duration::zero() || link.delta < Duration::zero()) {
    refuse("a time of the link is negative");
  }
  if (!link.enabled && (link.bandwidth > 0 || link.alpha > Duration::zero() ||
                        link.delta > Duration::zero() || !link.moves_data)) {
    refuse("the link has figures, but is not enabled");
  }
  return options;
}

// Null: there is no virtual time here, so communication gets a scheduler of its own.
std::shared_ptr<SchedulerCore> virtual_scheduler() {
  const SchedulerCore* const caller = calling_scheduler();
  if (caller == nullptr || !clock_of(*caller).is_virtual()) return nullptr;
  return share_current_scheduler("comm::open");
}

}  // namespace

World::World(const OpenOptions& options, int size, int first, int ranks_here)
    : options_(checked(options)), size_(size), first_(first), scheduler_(virtual_scheduler()) {
  for (int rank = first; rank < first + ranks_here; ++rank) {
    recorders_.push_back(std::make_unique<FlightRecorder>(rank, size));
  }
  if (scheduler_ == nullptr) {
    own_.emplace(SchedulerOptions{.workers = options_.threads});
    scheduler_ = own_->core();
  }
  if (!options_.recorder_directory.empty()) on_sigquit_.emplace([this] { write_recorders(); });
  fibers_.emplace(scheduler_);
  fibers_->go([this] { watch(); }, {.name = "comm watchdog"});
}

World::~World() { end(); }

void World::end() noexcept {
  const Shield shield;
  fibers_.reset();  // cancels and joins
  own_.reset();
}

TimePoint World::time() const noexcept { return clock_of(*scheduler_).now(); }

bool World::is_virtual() const noexcept { return clock_of(*scheduler_).is_virtual(); }

FlightRecorder& World::recorder(int rank) noexcept {
  return *recorders_[static_cast<std::size_t>(rank - first_)];
}

// ---- operations under way

bool World::add(Operation& operation, int rank, std::uint64_t context) noexcept {
  operation.rank = rank;
  operation.context = context;
  operation.began = time();
  if (!operation.is_hidden) {
    operation.record = recorder(rank).begin(operation, context, operation.began);
  }
  bool wake = false;
  {
    const SpinLockGuard guard(lock_);
    if (failing_) return false;
    Pending& list = list_of(operation);
    operation.next = nullptr;
    operation.previous = list.newest;
    (list.newest != nullptr ? list.newest->next : list.oldest) = &operation;
    list.newest = &operation;
    if (operation.is_patient) return true;
    ++added_;
    wake = std::exchange(watchdog_sleeps_, false);
  }
  if (wake) bell_.ring();
  return true;
}

void World::remove(Operation& operation) noexcept {
  Pending& list = list_of(operation);
  (operation.previous != nullptr ? operation.previous->next : list.oldest) = operation.next;
  (operation.next != nullptr ? operation.next->previous : list.newest) = operation.previous;
}

bool World::take_all(std::span<Operation* const> operations) noexcept {
  const SpinLockGuard guard(lock_);
  if (failing_) return false;
  for (Operation* const one : operations) {
    if (one != nullptr) remove(*one);
  }
  return true;
}

void World::finish(Operation& operation, const Failure* failure) noexcept {
  if (!operation.is_hidden) {
    recorder(operation.rank).end(operation.record, time(), failure != nullptr);
  }
  operation.finished(operation, failure);
}

// ---- failing

void World::fail(Failure failure, bool tell) noexcept {
  const Shield shield;
  auto kept = std::make_unique<const Failure>(std::move(failure));
  {
    const SpinLockGuard guard(lock_);
    if (failing_) return;
    failure_ = std::move(kept);
    failing_ = true;                               // from here on nothing is added or taken
    dead_.store(true, std::memory_order_release);  // also for a caller that comes second
  }
  stop(*failure_, tell);
  {
    const std::scoped_lock lock(stopping_);
    is_stopped_ = true;
    for (Companion* const one : companions_) one->stop();
  }
  if (!options_.recorder_directory.empty()) write_recorders();
  for (;;) {
    Operation* one = nullptr;
    {
      const SpinLockGuard guard(lock_);
      one = watched_.oldest != nullptr ? watched_.oldest : patient_.oldest;
      if (one != nullptr) remove(*one);
    }
    if (one == nullptr) break;
    finish(*one, failure_.get());
  }
  std::vector<Channel<Notice>> listeners;
  {
    const SpinLockGuard guard(lock_);
    listeners.swap(listeners_);
  }
  for (const Channel<Notice>& one : listeners) {
    static_cast<void>(one.try_send(Notice{.kind = kDead}));
  }
}

void World::write_recorders() noexcept {
  const std::scoped_lock lock(writing_);
  const Failure* const why = is_dead() ? failure_.get() : nullptr;
  for (std::size_t i = 0; i < recorders_.size(); ++i) {
    if (recorders_[i]->write(options_.recorder_directory, why)) continue;
    std::fprintf(stderr, "leat: rank %d cannot write its flight recorder in %s\n",
                 first_ + static_cast<int>(i), options_.recorder_directory.c_str());
  }
}

void World::add_listener(const Channel<Notice>& notices) {
  {
    const SpinLockGuard guard(lock_);
    if (!failing_) return listeners_.push_back(notices);
  }
  static_cast<void>(notices.try_send(Notice{.kind = kDead}));
}

void World::remove_listener(const Channel<Notice>& notices) noexcept {
  const SpinLockGuard guard(lock_);
  std::erase(listeners_, notices);
}

void World::add_companion(Companion& companion) {
  const std::scoped_lock lock(stopping_);
  companions_.push_back(&companion);
  if (is_stopped_) companion.stop();
}

void World::remove_companion(Companion& companion) noexcept {
  const std::scoped_lock lock(stopping_);
  std::erase(companions_, &companion);
}

// ---- the watchdog

void World::watch() {
  const Duration period = std::min<Duration>(options_.deadline / 4, std::chrono::milliseconds(500));
  for (std::uint64_t seen = 0;;) {
    std::optional<Operation> found;  // without what the transport may change meanwhile
    std::string label;
    TimePoint next_look = TimePoint::max();  // when the bell rings
    {
      const TimePoint now = time();
      const SpinLockGuard guard(lock_);
      if (failing_) return;
      if (watched_.oldest != nullptr) {
        const TimePoint due = Deadline::after(watched_.oldest->began, options_.deadline).at();
        if (due <= now) {
          const char* const its_label = watched_.oldest->label;
          if (its_label != nullptr) label = its_label;
          found = {.signature = watched_.oldest->signature,
                   .peer = watched_.oldest->peer,
                   .label = its_label != nullptr ? label.c_str() : nullptr,
                   .rank = watched_.oldest->rank,
                   .context = watched_.oldest->context};
        }
        // In virtual time a look costs nothing: time stands still while anything else can go on.
        next_look = is_virtual() ? due : std::min(due, now + period);
      } else if (added_ != seen && !is_virtual()) {
        next_look = now + period;
      } else {
        watchdog_sleeps_ = true;
      }
      seen = added_;
    }
    if (found.has_value()) return fail(late(*found));
    bell_.wait_until(next_look);
  }
}

}  // namespace leat::comm
