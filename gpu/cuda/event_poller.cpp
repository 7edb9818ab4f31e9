#include "leat/gpu/cuda/event_poller.h"

#include <sys/prctl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "leat/csp/base/futex.h"
#include "leat/csp/base/start_thread.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/park.h"

namespace leat::gpu::cuda {

// Not std::call_once: it passes its function in thread-local memory, which all fibers of a worker
// share.
void EventPoller::start() {
  if (started_.load(std::memory_order_acquire)) return;
  const std::lock_guard guard(starting_);
  if (started_.load(std::memory_order_relaxed)) return;
  thread_ = start_thread("the thread that polls " + context_.device_name(), [this] { run(); });
  started_.store(true, std::memory_order_release);
}

void EventPoller::await(const EventRecordRef& record) {
  start();
  const OutsideWork outside;  // the device wakes this fiber, so this is no deadlock
  cudaError_t result = cudaSuccess;
  WaitNode node;
  node.slot = &result;
  const int outcome = park_current(
      {.reason = ParkReason::kAwait}, Deadline::never(),
      [&](Waiter& waiter) {
        node.waiter = &waiter;
        return watch(record, node);
      },
      [&](int) {
        const SpinLockGuard guard(lock_);
        record->waiters.remove(node);
      });
  if (outcome == Waiter::kCancelled) throw Cancelled{};
  if (result != cudaSuccess) throw_error(result, "cudaEventQuery", context_.device_name());
}

// Returns with lock_ held: the fiber parks next.
HeldLocks EventPoller::watch(const EventRecordRef& record,
                             WaitNode& node) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
  lock_.lock();
  record->waiters.push(node);
  const bool wakes = list(*record);  // the thread gets lock_ once the fiber has parked
  lock_.publish_before_switch();
  if (!wakes) return {.one = &lock_};
  return {.drop = &unlock_and_wake, .argument = this};
}

// Runs when the fiber has parked. After the lock, the fiber may end the poller.
__attribute__((no_sanitize("thread"))) void EventPoller::unlock_and_wake(void* self) noexcept {
  auto* const poller = static_cast<EventPoller*>(self);
  const std::atomic<std::uint32_t>* const word = &poller->word_;
  poller->lock_.unlock_after_switch();
  futex_wake(word);
}

bool EventPoller::list(EventRecord& record) noexcept {
  record.joined = true;
  if (record.watched) return false;
  record.watched = true;
  record.since = SteadyClock::instance().now();
  record.next = incoming_;
  incoming_ = EventRecordRef(record).release();
  const bool asleep = word_.load(std::memory_order_relaxed) == kAsleep;
  word_.store(kAwake, std::memory_order_relaxed);
  return asleep;
}

void EventPoller::subscribe(const EventRecordRef& record, const DoneSignalRef& signal) {
  start();
  bool wakes = false;
  {
    const SpinLockGuard guard(lock_);
    record->signals.push(signal);
    wakes = list(*record);
  }
  if (wakes) futex_wake(&word_);
}

void EventPoller::unsubscribe(DoneSignal& signal) noexcept {
  DoneSignalRef ours;  // released after the lock
  const EventRecordRef record =
      EventRecordRef::adopt(*static_cast<EventRecord*>(std::exchange(signal.record, nullptr)));
  const SpinLockGuard guard(lock_);
  ours = record->signals.remove(signal);
}

EventPoller::~EventPoller() {
  {
    const SpinLockGuard guard(lock_);
    stopping_ = true;
    word_.store(kAwake, std::memory_order_relaxed);
  }
  futex_wake(&word_);
  if (thread_.joinable()) thread_.join();
}

void EventPoller::run() noexcept {
  const std::string name = "leat-cuda-" + std::to_string(context_.number());
  prctl(PR_SET_NAME, name.c_str());
  prctl(PR_SET_TIMERSLACK, 1000UL);  // ns; the default, 50 us, is longer than the shortest sleep

  // For as long as the thread lives; nothing else runs on it.
  const Context::Scope scope(context_);
  for (;;) {
    take_incoming();
    if (watched_ == nullptr) {
      if (stopping()) return;
      sleep(Deadline::never());
      continue;
    }
    if (poll(scope.error())) continue;
    const TimePoint now = SteadyClock::instance().now();
    Duration pause = WaitPredictor::kLongestSleep;
    for (const EventRecord* record = watched_; record != nullptr; record = record->next) {
      pause = std::min(pause, predictor_.sleep(now - record->since));
    }
    if (pause == Duration::zero()) {
      cpu_relax();
    } else {
      sleep(Deadline(now + pause));
    }
  }
}

bool EventPoller::stopping() const noexcept {
  const SpinLockGuard guard(lock_);
  return stopping_;
}

// Moves new records to watched_.
void EventPoller::take_incoming() noexcept {
  const SpinLockGuard guard(lock_);
  while (incoming_ != nullptr) {
    EventRecord* const record = std::exchange(incoming_, incoming_->next);
    record->joined = false;  // its waiters are all registered before the query
    push_watched(*record);
  }
}

void EventPoller::push_watched(EventRecord& record) noexcept {
  record.next = watched_;
  watched_ = &record;
}

// Queries every watched record, and removes those that are settled. True if there was any.
bool EventPoller::poll(cudaError_t lost) noexcept {
  bool changed = false;
  for (EventRecord* rest = std::exchange(watched_, nullptr); rest != nullptr;) {
    EventRecord& record = *std::exchange(rest, rest->next);
    Outcome outcome;
    do {
      // Without the lock, because the driver may take long. The list's reference keeps the record.
      outcome = settle(record, lost != cudaSuccess ? lost : cudaEventQuery(record.event));
    } while (outcome == Outcome::kAskAgain);
    if (outcome == Outcome::kGoesOn) {
      push_watched(record);
    } else {
      changed = true;
    }
  }
  return changed;
}

// Handles `code`, the answer to a query of a watched record. Wakes the waiters and drops the list's
// reference. Does neither if there are waiters and the record is not done, or if the answer does
// not apply to all of them.
EventPoller::Outcome EventPoller::settle(EventRecord& watched, cudaError_t code) noexcept {
  WakeList wake;
  DoneSignal* signals = nullptr;
  {
    // Released after the lock and before the waiters run, because they often record next.
    EventRecordRef record;
    const SpinLockGuard guard(lock_);
    const bool wanted = !watched.waiters.empty() || !watched.signals.empty();
    const bool joined = std::exchange(watched.joined, false);
    if (wanted && joined && code == cudaSuccess) return Outcome::kAskAgain;
    if (wanted && code == cudaErrorNotReady) return Outcome::kGoesOn;
    if (code == cudaSuccess) predictor_.ended(SteadyClock::instance().now() - watched.since);
    record = EventRecordRef::adopt(watched);
    record->watched = false;
    // If the record is not done, there are no waiters left: they were cancelled.
    while (WaitNode* const node = record->waiters.pop_claimed()) {
      *static_cast<cudaError_t*>(node->slot) = code;
      wake.add(*node);
    }
    signals = record->signals.detach();
  }
  wake.wake();
  if (signals != nullptr) DoneSignalList::notify_all(signals, error_of(code));
  return Outcome::kSettled;
}

// The error that a signal reports for a record settled with `code`; null: the record is done.
std::exception_ptr EventPoller::error_of(cudaError_t code) const noexcept {
  if (code == cudaSuccess) return failure_.error();
  try {
    throw_error(code, "cudaEventQuery", context_.device_name());
  } catch (...) {
    return std::current_exception();  // that error, or std::bad_alloc
  }
}

// Sleeps until `until`, until a record comes in, or until the thread has to stop.
void EventPoller::sleep(Deadline until) noexcept {
  {
    const SpinLockGuard guard(lock_);
    if (incoming_ != nullptr || stopping_) return;
    word_.store(kAsleep, std::memory_order_relaxed);
  }
  futex_wait(word_, kAsleep, until);
  const SpinLockGuard guard(lock_);
  word_.store(kAwake, std::memory_order_relaxed);
}

}  // namespace leat::gpu::cuda
