#include "leat/comm/transports/mpi/engine.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "leat/comm/transports/mpi/failure_text.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"

namespace leat::comm::mpi {
namespace {

constexpr Duration kMostRest = std::chrono::milliseconds(1);
constexpr Duration kLeastRest = std::chrono::microseconds(20);
// How long a rank that fails tries to tell the others.
constexpr Duration kTelling = std::chrono::milliseconds(100);
constexpr Duration kGrace = std::chrono::seconds(1);

TimePoint now() noexcept { return SteadyClock::instance().now(); }

// On the caller's clock.
TimePoint after_deadline(const OpenOptions& options) noexcept {
  return Deadline::after(Deadline::after(leat::now(), options.deadline).at(), kGrace).at();
}

}  // namespace

// ---- the start and the end

void Engine::start() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's threads
  try {
    std::thread([this] { run(); }).detach();
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(std::string("leat: cannot start the thread that owns MPI: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const OutsideWork outside;
  if (!ready_.wait_until(after_deadline(options_))) {
    throw Error("leat: comm::open(\"mpi\"): MPI_Init has not returned by the deadline");
  }
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void Engine::run() {
  pthread_setname_np(pthread_self(), "leat-mpi");
  thread_.store(std::this_thread::get_id());
  try {
    wire_.emplace(options_);
    rank_ = wire_->rank();
    size_ = wire_->size();
    heard_.resize(static_cast<std::size_t>(size_));
    said_goodbye_.resize(static_cast<std::size_t>(size_), 0);
  } catch (...) {
    error_ = std::current_exception();
    halted_.notify();
    ready_.notify();
    return;
  }
  ready_.notify();
  served_.wait();
  while (!stopped_) work();
  halted_.notify();
}

void Engine::serve(const std::shared_ptr<World>& world) {
  world_ = world;
  serving_ = world.get();
  served_.notify();
}

// Until the world fails, or the process ends.
void Engine::work() {
  try {
    for (int quiet_turns = 0; !stopped_;) {
      if (turn()) {
        quiet_turns = 0;
      } else if (!stopped_) {
        rest(++quiet_turns);
      }
    }
  } catch (const Stopped&) {
    is_failing_ = true;  // somebody else may fail the world at the same time, and calls stop()
  } catch (const std::exception& error) {
    try {
      fail({.peer = -1, .operation = "MPI", .what = std::string("MPI failed: ") + error.what()});
    } catch (const Stopped&) {
      is_failing_ = true;
    }
  }
}

void Engine::end() noexcept {
  const Shield shield;
  {
    const SpinLockGuard guard(inbox_lock_);
    inbox_.ends = true;
  }
  ring();
  const OutsideWork outside;
  if (halted_.wait_until(after_deadline(options_))) return;
  // The others do not end. MPI_Finalize would wait for them.
  const Failure late{.operation = "the end of the process",
                     .what = "rank " + std::to_string(rank_) +
                             " waited for the others at the end of its process until the deadline"};
  {
    const SpinLockGuard guard(inbox_lock_);
    inbox_.failure = &late;
    inbox_.tell = true;
  }
  ring();
  // `late` is not used after that: if the thread hangs in MPI_Finalize, it reads no inbox.
  static_cast<void>(halted_.wait_until(Deadline::after(leat::now(), kGrace / 2).at()));
}

// Returns whether MPI was left in peace.
bool Engine::try_end() {
  if (!ends_) return false;
  if (goodbyes_ < size_ - 1 || !wire_->is_idle()) return false;
  wire_->close();
  stopped_ = true;
  return true;
}

// ---- from any thread

void Engine::ring() noexcept {
  // seq_cst: the inbox was written before, under its lock.
  if (word_.exchange(kRung) == kAsleep) futex_wake(&word_);
}

void Engine::submit(Operation& operation) noexcept {
  operation.link = nullptr;
  {
    const SpinLockGuard guard(inbox_lock_);
    (inbox_.last != nullptr ? inbox_.last->link : inbox_.first) = &operation;
    inbox_.last = &operation;
  }
  ring();
}

void Engine::post(Group& group, int to, std::span<const Notice> notices) {
  {
    const SpinLockGuard guard(inbox_lock_);
    for (Notice one : notices) {
      one.from = group.rank();
      inbox_.posted.push_back({&group, to, one});
    }
  }
  ring();
}

void Engine::listen(std::shared_ptr<Group> group, const Channel<Notice>& notices) {
  {
    const SpinLockGuard guard(inbox_lock_);
    inbox_.requests.push_back({std::move(group), notices});
  }
  ring();
}

void Engine::leave(std::shared_ptr<Group> group) {
  {
    const SpinLockGuard guard(inbox_lock_);
    inbox_.requests.push_back({std::move(group), std::nullopt});
  }
  ring();
}

void Engine::ask(std::shared_ptr<Question> question) {
  {
    const SpinLockGuard guard(inbox_lock_);
    inbox_.questions.push_back(std::move(question));
  }
  ring();
}

void Engine::stop(const Failure& failure, bool tell) noexcept {
  if (is_here()) return halt(failure, tell);
  {
    const SpinLockGuard guard(inbox_lock_);
    if (world_ended_) return;
    inbox_.failure = &failure;
    inbox_.tell = tell;
  }
  ring();
  const OutsideWork outside;
  halted_.wait();
}

void Engine::world_ends() noexcept {
  if (!is_here()) return;
  const SpinLockGuard guard(inbox_lock_);
  world_ended_ = true;
  if (inbox_.failure == nullptr) return;
  // The watchdog waits in stop() for this thread, which waits for the watchdog.
  inbox_.failure = nullptr;
  stopped_ = true;
  halted_.notify();
}

// ---- the thread's loop

bool Engine::turn() {
  bool worked = take_inbox();
  if (stopped_) return true;
  if (is_failing_) return false;
  worked |= wire_->poll();
  for (Message message; wire_->receive(message); worked = true) received(message);
  finish_complete();
  forget_groups();
  return try_end() || worked;
}

void Engine::rest(int quiet_turns) {
  const bool waits =
      !is_failing_ && (under_way_ > 0 || !wire_->is_idle() || listeners_ > 0 || ends_);
  if (quiet_turns == 1) quiet_since_ = now();
  if (quiet_turns <= kSpins && waits) return cpu_relax();
  if (quiet_turns <= (waits ? kYields : kYieldsWhenIdle)) return yield_cpu();
  std::uint32_t awake = kAwake;
  if (!word_.compare_exchange_strong(awake, kAsleep)) return;  // rung
  if (waits) {
    const TimePoint at = now();
    const Duration length = std::clamp<Duration>((at - quiet_since_) / 16, kLeastRest, kMostRest);
    futex_wait(word_, kAsleep, Deadline(at + length));
  } else {
    futex_wait(word_, kAsleep, Deadline::never());
  }
  std::uint32_t asleep = kAsleep;
  word_.compare_exchange_strong(asleep, kAwake);
}

bool Engine::take_inbox() {
  if (word_.load(std::memory_order_relaxed) != kRung) return false;
  word_.exchange(kAwake);
  Operation* first = nullptr;
  {
    const SpinLockGuard guard(inbox_lock_);
    std::swap(inbox_.posted, taken_.posted);
    std::swap(inbox_.requests, taken_.requests);
    std::swap(inbox_.questions, taken_.questions);
    first = std::exchange(inbox_.first, nullptr);
    inbox_.last = nullptr;
    taken_.failure = std::exchange(inbox_.failure, nullptr);
    taken_.tell = inbox_.tell;
    taken_.ends = std::exchange(inbox_.ends, false);
  }
  if (taken_.failure != nullptr) {
    halt(*taken_.failure, taken_.tell);
    return true;
  }
  if (is_failing_) return true;
  while (first != nullptr) {
    Operation& operation = *std::exchange(first, first->link);
    ++under_way_;
    auto& group = *static_cast<Group*>(operation.state);
    know(group);
    group.begin(operation);
  }
  send_notices();
  for (const Request& one : taken_.requests) {
    know(*one.group);
    if (one.listener) {
      ++listeners_;
      one.group->listen(*one.listener);
      continue;
    }
    if (one.group->is_listening()) --listeners_;
    one.group->leave();
    leaving_.push_back(one.group);
  }
  taken_.requests.clear();
  for (const auto& one : taken_.questions) {
    const auto group = groups_.find(one->operation.context);
    if (group != groups_.end()) {
      one->missing = group->second->missing(one->operation);
      if (one->operation.peer >= 0) one->peer = group->second->world_rank(one->operation.peer);
    }
    one->answered.notify();
  }
  taken_.questions.clear();
  if (taken_.ends && !ends_) {
    ends_ = true;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) wire_->send(rank, {.kind = MessageKind::kGoodbye});
    }
  }
  return true;
}

// Notices that go to one rank, one after the other, share a message.
void Engine::send_notices() {
  const std::vector<Posted>& posted = taken_.posted;
  for (std::size_t i = 0; i < posted.size();) {
    Group& group = *posted[i].group;
    const int to = posted[i].to;
    know(group);
    batch_.clear();
    while (i < posted.size() && posted[i].group == &group && posted[i].to == to &&
           (batch_.size() + 1) * sizeof(Notice) <= kInlineBytes) {
      batch_.push_back(posted[i++].notice);
    }
    if (to == group.rank()) {
      group.deliver(batch_);
      continue;
    }
    wire_->send(group.world_rank(to),
                {.kind = MessageKind::kNotices,
                 .bytes = static_cast<std::uint32_t>(batch_.size() * sizeof(Notice)),
                 .context = group.context()},
                batch_.data());
  }
  taken_.posted.clear();
}

// The first time that the thread hears of the group: what others said to it has waited.
void Engine::know(Group& group) {
  if (std::exchange(group.is_known, true)) return;
  groups_.emplace(group.context(), group.shared_from_this());
  if (const auto early = early_.find(group.context()); early != early_.end()) {
    const std::vector<Early> messages = std::move(early->second);
    early_.erase(early);
    for (const Early& one : messages) group.received(one.from, one.header, one.data.data());
  }
  for (const int member : group.members()) {
    if (said_goodbye_[static_cast<std::size_t>(member)] != 0) group.world_rank_left(member);
  }
}

void Engine::received(const Message& message) {
  const Header& header = *message.header;
  hear(message.from);
  if (header.kind == MessageKind::kFail) {
    fail(failure_of(header, message.data), false);
  }
  if (header.kind == MessageKind::kGoodbye) {
    said_goodbye_[static_cast<std::size_t>(message.from)] = 1;
    ++goodbyes_;
    for (const auto& [context, group] : groups_) group->world_rank_left(message.from);
    return;
  }
  const auto group = groups_.find(header.context);
  if (group == groups_.end()) {
    early_[header.context].push_back(
        {message.from, header, {message.data, message.data + header.bytes}});
    return;
  }
  group->second->received(message.from, header, message.data);
}

void Engine::hear(int rank) noexcept { heard_[static_cast<std::size_t>(rank)] = now(); }

int Engine::most_silent(std::span<const int> ranks) const noexcept {
  return *std::min_element(ranks.begin(), ranks.end(), [&](int a, int b) {
    return heard_[static_cast<std::size_t>(a)] < heard_[static_cast<std::size_t>(b)];
  });
}

void Engine::finish(Operation& operation) {
  // Until its end the operation keeps its world alive.
  if (!serving_->take(operation)) throw Stopped{};
  --under_way_;
  serving_->finish(operation);
}

void Engine::finish_complete() {
  for (Operation* const one : complete_) finish(*one);
  complete_.clear();
}

void Engine::forget_groups() {
  std::erase_if(leaving_, [&](const std::shared_ptr<Group>& one) {
    if (!one->is_over()) return false;
    groups_.erase(one->context());
    return true;
  });
}

// ---- failing

void Engine::fail(Failure failure, bool tell) {
  if (const std::shared_ptr<World> world = world_.lock()) {
    world->fail(std::move(failure), tell);  // calls halt(), unless another thread fails it
  } else {
    halt(failure, tell);
  }
  throw Stopped{};
}

void Engine::halt(const Failure& failure, bool tell) noexcept {
  if (stopped_) return;
  if (tell) tell_failure(failure);
  stopped_ = true;
  halted_.notify();
}

void Engine::tell_failure(const Failure& failure) noexcept {
  try {
    Header header{.kind = MessageKind::kFail};
    const std::string text = failure_text(failure, header);
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) wire_->send(rank, header, text.data());
    }
    const TimePoint until = now() + kTelling;
    while (wire_->sends_headers() && now() < until) {
      wire_->poll_headers();
      yield_cpu();
    }
  } catch (const std::exception&) {  // MPI has failed: the others find out by themselves
  }
}

}  // namespace leat::comm::mpi
