#include "leat/comm/transports/world.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "leat/comm/transports/rank_calls.h"
#include "leat/csp/wait/identity.h"

namespace leat::comm {
namespace {

// How long ranks have to answer. MPI's thread answers at once, unless it has no CPU.
constexpr Duration kAnswer = std::chrono::milliseconds(500);

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
  tell_listeners({.kind = kDead});
  std::vector<Listener> listeners;
  const SpinLockGuard guard(lock_);
  listeners.swap(listeners_);
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

void World::tell_listeners(const Notice& notice) {
  std::vector<Channel<Notice>> listeners;
  {
    const SpinLockGuard guard(lock_);
    for (const Listener& one : listeners_) listeners.push_back(one.notices);
  }
  for (const Channel<Notice>& one : listeners) static_cast<void>(one.try_send(Notice(notice)));
}

void World::add_listener(int rank, std::uint64_t context, const Channel<Notice>& notices) {
  {
    const SpinLockGuard guard(lock_);
    if (!failing_) {
      listeners_.push_back({.rank = rank, .context = context, .notices = notices});
      return;
    }
  }
  static_cast<void>(notices.try_send(Notice{.kind = kDead}));
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

// ---- who is to blame

// The parts of a rank answer one after the other; the last one tells.
struct World::Question {
  SpinLock lock;
  Answer answer LEAT_GUARDED_BY(lock);
  int open LEAT_GUARDED_BY(lock) = 1;
  std::function<void(const Answer&)> tell;

  void add(const Answer& part) {
    Answer all;
    {
      const SpinLockGuard guard(lock);
      answer.add(part);
      if (--open > 0) return;
      all = std::move(answer);
    }
    tell(all);
  }
};

void World::remove_listener(const Channel<Notice>& notices) noexcept {
  std::vector<Asked> asked;
  {
    const SpinLockGuard guard(lock_);
    const auto here = std::ranges::find(listeners_, notices, &Listener::notices);
    if (here == listeners_.end()) return;
    asked.swap(here->asked);
    listeners_.erase(here);
  }
  for (const Asked& one : asked) one.question->add({});
}

void World::ask_here(const Wait& asked, std::function<void(const Answer&)> tell) {
  const auto question = std::make_shared<Question>();
  question->tell = std::move(tell);
  std::vector<Operation> awaited;  // as in watch()
  std::vector<Channel<Notice>> to_ring;
  {
    const SpinLockGuard guard(lock_);
    std::vector<std::uint64_t> patient;
    for (const Pending& list : {watched_, patient_}) {
      for (const Operation* one = list.oldest; one != nullptr; one = one->next) {
        if (one->rank != asked.rank || one->is_awaited == nullptr || !one->is_awaited(*one)) {
          continue;
        }
        if (one->is_patient) {
          patient.push_back(one->context);
        } else {
          awaited.push_back({.signature = one->signature,
                             .peer = one->peer,
                             .rank = one->rank,
                             .context = one->context});
        }
      }
    }
    for (Listener& one : listeners_) {
      if (one.rank != asked.rank) continue;
      const bool is_awaited = std::ranges::find(patient, one.context) != patient.end();
      if (one.asked.empty()) to_ring.push_back(one.notices);
      one.asked.push_back({asked, is_awaited, question});
      const SpinLockGuard inner(question->lock);
      ++question->open;
    }
  }
  Answer answer;
  for (const Operation& one : awaited) {
    answer.waits = true;
    for (const int rank : missing(one).ranks) answer.whom.push_back({.rank = rank});
  }
  question->add(answer);
  for (const Channel<Notice>& one : to_ring) {
    static_cast<void>(one.try_send(Notice{.kind = kAsked}));
  }
}

void World::answer(const Channel<Notice>& listener,
                   const std::function<Answer(const Wait& asked, bool is_awaited)>& say) {
  std::vector<Asked> asked;
  {
    const SpinLockGuard guard(lock_);
    const auto here = std::ranges::find(listeners_, listener, &Listener::notices);
    if (here != listeners_.end()) asked.swap(here->asked);
  }
  for (const Asked& one : asked) one.question->add(say(one.wait, one.is_awaited));
}

void World::ask(const Wait& asked, std::shared_ptr<Inquiry> inquiry, std::size_t question) {
  ask_here(asked, [inquiry = std::move(inquiry), question](const Answer& answer) {
    inquiry->answer(question, answer);
  });
}

void World::accuse(Accusation accusation) {
  {
    const SpinLockGuard guard(lock_);
    if (failing_) return;
    accusations_.push_back(std::move(accusation));
    watchdog_sleeps_ = false;
  }
  bell_.ring();
}

void World::look_into(Accusation& accusation) {
  const TimePoint until = Deadline::after(time(), kAnswer).at();
  const auto ask_all = [&](std::span<const Wait> all) {
    const auto inquiry = std::make_shared<Inquiry>(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) ask(all[i], inquiry, i);
    return inquiry->wait_until(until);
  };
  if (accusation.only_silent) {
    const auto answers = ask_all(accusation.missing);
    const auto has_come = [](const std::optional<Answer>& one) { return one.has_value(); };
    if (std::ranges::any_of(answers, has_come)) return;
    return fail(std::move(accusation.failure), accusation.tell);
  }
  const Verdict verdict = find_blame(accusation.missing, ask_all);
  accusation.failure.peer = verdict.peer;
  accusation.failure.what +=
      verdict.text + "; see where the ranks are, or raise OpenOptions::deadline";
  fail(std::move(accusation.failure), accusation.tell);
}

// ---- the watchdog

void World::watch() {
  const Duration period = std::min<Duration>(options_.deadline / 4, std::chrono::milliseconds(500));
  for (std::uint64_t seen = 0;;) {
    std::vector<Accusation> accusations;
    std::optional<Operation> late;  // without what the transport may change meanwhile
    std::string label;
    TimePoint next_look = TimePoint::max();  // when the bell rings
    {
      const TimePoint now = time();
      const SpinLockGuard guard(lock_);
      if (failing_) return;
      accusations.swap(accusations_);
      if (watched_.oldest != nullptr) {
        const TimePoint due = Deadline::after(watched_.oldest->began, options_.deadline).at();
        if (due <= now) {
          const char* const its_label = watched_.oldest->label;
          if (its_label != nullptr) label = its_label;
          late = {.signature = watched_.oldest->signature,
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
        watchdog_sleeps_ = accusations.empty();
      }
      seen = added_;
    }
    if (accusations.empty() && late.has_value()) accusations.push_back(accusation_of(*late));
    for (Accusation& one : accusations) look_into(one);
    if (accusations.empty()) bell_.wait_until(next_look);
  }
}

World::Accusation World::accusation_of(const Operation& late) {
  const Missing who = missing(late);
  std::vector<Wait> waits;
  for (const int rank : who.ranks) waits.push_back({.rank = rank});
  return {.failure = late_operation(late, who.peer, who.ranks, options_.deadline),
          .missing = std::move(waits)};
}

}  // namespace leat::comm
