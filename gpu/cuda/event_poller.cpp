#include "leat/gpu/cuda/event_poller.h"

#include <sys/prctl.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/futex.h"
#include "leat/csp/wait/park.h"

namespace leat::gpu::cuda {

// Not std::call_once: that hands its function over in the thread's own memory, which the fibers of
// a worker share.
void EventPoller::start() {
  if (started_.load(std::memory_order_acquire)) return;
  const std::lock_guard guard(starting_);
  if (started_.load(std::memory_order_relaxed)) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw Error("leat: cannot start the thread that polls " + context_.device_name() + ": " +
                error.what() + "; raise the limit on threads (ulimit -u)");
  }
  started_.store(true, std::memory_order_release);
}

void EventPoller::await(const RecordRef& record) {
  start();
  const OutsideWork outside;  // the device wakes this fiber: no deadlock, whatever else is parked
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
HeldLocks EventPoller::watch(const RecordRef& record,
                             WaitNode& node) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
  lock_.lock();
  record->waiters.push(node);
  list(*record);  // the thread comes to take lock_ when the fiber has parked
  lock_.publish_before_switch();
  return {.one = &lock_};
}

// Sees to it that the record is watched.
void EventPoller::list(Record& record) noexcept {
  record.joined = true;
  if (record.watched) return;
  record.watched = true;
  record.since = SteadyClock::instance().now();
  record.next = incoming_;
  incoming_ = RecordRef(record).release();
  const bool asleep = word_.load(std::memory_order_relaxed) == kAsleep;
  word_.store(kAwake, std::memory_order_relaxed);
  if (asleep) futex_wake(&word_);
}

void EventPoller::subscribe(const RecordRef& record, const DoneSignalRef& signal) {
  start();
  const SpinLockGuard guard(lock_);
  record->signals.push(signal);
  list(*record);
}

void EventPoller::unsubscribe(DoneSignal& signal) noexcept {
  DoneSignalRef ours;  // goes after the lock
  const RecordRef record =
      RecordRef::adopt(*static_cast<Record*>(std::exchange(signal.record, nullptr)));
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
  Record* list = nullptr;  // what is watched, linked by Record::next
  for (;;) {
    take_incoming(list);
    if (list == nullptr) {
      if (stopping()) return;
      sleep(Deadline::never());
      continue;
    }
    if (poll(list, scope.error())) continue;
    const TimePoint now = SteadyClock::instance().now();
    Duration pause = WaitPredictor::kLongestSleep;
    for (const Record* record = list; record != nullptr; record = record->next) {
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

// Moves what is new to the thread's list.
void EventPoller::take_incoming(Record*& list) noexcept {
  const SpinLockGuard guard(lock_);
  while (incoming_ != nullptr) {
    Record* const record = std::exchange(incoming_, incoming_->next);
    record->joined = false;  // whoever waits by now does so before the question is asked
    record->next = list;
    list = record;
  }
}

// Asks for every record of the list, and takes out what is settled. True if there was any.
bool EventPoller::poll(Record*& list, cudaError_t lost) noexcept {
  bool changed = false;
  for (Record** place = &list; *place != nullptr;) {
    // Without the lock, which the driver may make long: the list's own reference keeps the record.
    const cudaError_t code = lost != cudaSuccess ? lost : cudaEventQuery((*place)->event);
    switch (settle(*place, code)) {
      case Outcome::kSettled: changed = true; break;
      case Outcome::kGoesOn: place = &(*place)->next; break;
      case Outcome::kAskAgain: break;
    }
  }
  return changed;
}

// Takes the record at `place` out of the list and wakes its waiters with `code`, unless somebody
// waits for it that has to go on waiting, or for whom that is no answer.
EventPoller::Outcome EventPoller::settle(Record*& place, cudaError_t code) noexcept {
  WakeList wake;
  DoneSignal* signals = nullptr;
  {
    RecordRef record;  // lets go before the waiters run, who often record next, but after the lock
    const SpinLockGuard guard(lock_);
    const bool wanted = !place->waiters.empty() || !place->signals.empty();
    const bool joined = std::exchange(place->joined, false);
    if (wanted && joined && code == cudaSuccess) return Outcome::kAskAgain;
    if (wanted && code == cudaErrorNotReady) return Outcome::kGoesOn;
    if (code == cudaSuccess) predictor_.ended(SteadyClock::instance().now() - place->since);
    record = RecordRef::adopt(*place);
    place = record->next;  // before it is no longer watched: then it may come in anew
    record->watched = false;
    // None is left where it is not ready: they were cancelled.
    while (WaitNode* const node = record->waiters.pop_claimed()) {
      *static_cast<cudaError_t*>(node->slot) = code;
      wake.add(*node);
    }
    signals = record->signals.detach();
  }
  wake.wake();
  if (signals != nullptr) DoneSignalList::reach_all(signals, error_of(code));
  return Outcome::kSettled;
}

// What a signal tells of a record that was settled with `code`; null: it is done.
std::exception_ptr EventPoller::error_of(cudaError_t code) const noexcept {
  if (code == cudaSuccess) return failure_.error();
  try {
    throw_error(code, "cudaEventQuery", context_.device_name());
  } catch (...) {
    return std::current_exception();  // that, or that there was no memory for it
  }
}

// Until `until`, until something comes in, or until the thread is to stop.
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
