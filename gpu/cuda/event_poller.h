// The bridge from the device to fibers: who awaits an event is woken here, and nowhere else.
//
// CUDA can call back when work is done, but on a thread of the driver's, where nothing that may
// take a lock should run, and that slows the stream. So one thread for each opened device asks,
// when WaitPredictor says. While nobody waits it sleeps for good.
//
// Always true:
//  - under lock_, a Record is `watched` exactly while it stands in incoming_ or in the thread's own
//    list, each of which counts as a user of it; it has waiters and signals only while it is
//    watched;
//  - a waiter's node is touched under lock_ alone, or after its operation was claimed and before
//    its ready(): whoever has taken its node out under lock_ may leave;
//  - a watched Record is not recorded again, but by who had begun to before it was watched
//    (event_pool.h): so what it is asked is about the record that its waiters saw, or one made
//    while they asked;
//  - that a record is done is for those alone who waited when the question was asked: who has
//    joined since may have seen a later record. An error is for all.
//
// Lock order: lock_ is the last of gpu's (gpu/README.md); under it nothing is called but
// futex_wake, and fibers are switched away from.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#include "leat/csp/clock.h"
#include "leat/csp/wait/spin_lock.h"
#include "leat/gpu/backend/wait_predictor.h"
#include "leat/gpu/cuda/context.h"
#include "leat/gpu/cuda/event_pool.h"
#include "leat/gpu/cuda/host_call.h"

namespace leat::gpu::cuda {

class EventPoller {
 public:
  /// `failure` is what host functions have thrown, of which CUDA does not know.
  EventPoller(const Context& context, const Failure& failure) noexcept
      : context_(context), failure_(failure) {}
  /// Joins the thread. Nobody may wait any more.
  ~EventPoller();
  EventPoller(const EventPoller&) = delete;
  EventPoller& operator=(const EventPoller&) = delete;

  /// Suspends the calling fiber until `record` is done. Throws GpuError, Cancelled; leat::Error
  /// where the thread cannot be started, which is done at the first call.
  void await(const RecordRef& record) LEAT_EXCLUDES(lock_);
  /// Reaches `signal` once `record` is done or the device has failed. Throws leat::Error likewise.
  void subscribe(const RecordRef& record, const DoneSignalRef& signal) LEAT_EXCLUDES(lock_);
  void unsubscribe(DoneSignal& signal) noexcept LEAT_EXCLUDES(lock_);

 private:
  // Values of word_, all changed under lock_.
  static constexpr std::uint32_t kAwake = 0;
  // Whoever has news stores kAwake and wakes the thread.
  static constexpr std::uint32_t kAsleep = 1;

  void start();
  HeldLocks watch(const RecordRef& record, WaitNode& node) noexcept;
  void list(Record& record) noexcept LEAT_REQUIRES(lock_);

  // The thread's:
  void run() noexcept;
  void take_incoming(Record*& list) noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] bool poll(Record*& list, cudaError_t lost) noexcept LEAT_EXCLUDES(lock_);
  enum class Outcome : std::uint8_t { kSettled, kGoesOn, kAskAgain };
  [[nodiscard]] Outcome settle(Record*& place, cudaError_t code) noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] std::exception_ptr error_of(cudaError_t code) const noexcept;
  void sleep(Deadline until) noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] bool stopping() const noexcept LEAT_EXCLUDES(lock_);

  const Context& context_;
  const Failure& failure_;
  std::mutex starting_;
  std::atomic<bool> started_{false};  // released with thread_
  std::thread thread_;

  mutable SpinLock lock_;
  Record* incoming_ LEAT_GUARDED_BY(lock_) = nullptr;  // watched, and not yet in the thread's list
  bool stopping_ LEAT_GUARDED_BY(lock_) = false;
  std::atomic<std::uint32_t> word_{kAwake};
  WaitPredictor predictor_;  // the thread's
};

}  // namespace leat::gpu::cuda
