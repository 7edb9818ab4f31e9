// The bridge from the device to fibers: only this poller wakes fibers that wait for an event.
//
// CUDA can call back when work is done, but on a driver's thread, where no lock should be taken,
// and the callback slows the stream. So each opened device has one thread that queries the events,
// at the times that WaitPredictor gives. While no fiber waits, the thread sleeps without waking up.
//
// Always true:
//  - under lock_, an EventRecord is `watched` exactly while it is in incoming_ or in the thread's
//    own list. The list counts as one reference. A record has waiters and signals only while it is
//    watched;
//  - a waiter's node is touched only under lock_, or after its operation was claimed and before its
//    ready(). A fiber that has taken its node out under lock_ may return;
//  - a watched record is not recorded again, except by a caller that had begun to record it before
//    it was watched (event.h). So a query is about the record that its waiters saw, or about one
//    made while they registered;
//  - a "done" answer applies only to waiters registered before the query; later ones may have seen
//    a newer record. An error applies to all.
//
// Lock      | guards                                | held while calling
// starting_ | the start of the thread               | start_thread()
// lock_     | word_, incoming_, stopping_, and the  | futex_wake; SchedulerCore::lock_, by a fiber
//           | waiters and signals of records        | that parks. No other lock of gpu
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#include "leat/csp/base/spin_lock.h"
#include "leat/csp/clock.h"
#include "leat/gpu/backend/wait_predictor.h"
#include "leat/gpu/cuda/context.h"
#include "leat/gpu/cuda/event_record.h"
#include "leat/gpu/cuda/host_function.h"

namespace leat::gpu::cuda {

/// The poller of one opened device. Thread- and fiber-safe.
class EventPoller {
 public:
  /// `failure` has the exceptions of host functions, which CUDA does not know.
  EventPoller(const Context& context, const Failure& failure) noexcept
      : context_(context), failure_(failure) {}
  /// Joins the thread. No fiber may wait any more.
  ~EventPoller();
  EventPoller(const EventPoller&) = delete;
  EventPoller& operator=(const EventPoller&) = delete;

  /// Suspends the calling fiber until `record` is done. Starts the thread at the first call. Throws
  /// GpuError, Cancelled; leat::Error if the thread cannot be started.
  void await(const EventRecordRef& record) LEAT_EXCLUDES(lock_);
  /// Notifies `signal` once `record` is done or the device has failed. Starts the thread as
  /// await().
  void subscribe(const EventRecordRef& record, const DoneSignalRef& signal) LEAT_EXCLUDES(lock_);
  /// Ends the subscription of `signal`. Does not wait for a notify() that is under way.
  void unsubscribe(DoneSignal& signal) noexcept LEAT_EXCLUDES(lock_);

 private:
  // Values of word_, changed under lock_. To wake the thread: store kAwake, then futex_wake,
  // without the lock.
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kAsleep = 1;

  void start();
  HeldLocks watch(const EventRecordRef& record, WaitNode& node) noexcept;
  /// Makes the thread watch the record. Returns whether wake() must follow, without the lock.
  [[nodiscard]] bool list(EventRecord& record) noexcept LEAT_REQUIRES(lock_);
  static void unlock_and_wake(void* self) noexcept;

  // Called by the thread:
  void run() noexcept;
  void take_incoming() noexcept LEAT_EXCLUDES(lock_);
  void push_watched(EventRecord& record) noexcept;
  [[nodiscard]] bool poll(cudaError_t lost) noexcept LEAT_EXCLUDES(lock_);
  enum class Outcome : std::uint8_t { kSettled, kGoesOn, kAskAgain };
  [[nodiscard]] Outcome settle(EventRecord& watched, cudaError_t code) noexcept
      LEAT_EXCLUDES(lock_);
  [[nodiscard]] std::exception_ptr error_of(cudaError_t code) const noexcept;
  void sleep(Deadline until) noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] bool stopping() const noexcept LEAT_EXCLUDES(lock_);

  const Context& context_;
  const Failure& failure_;
  std::mutex starting_;
  std::atomic<bool> started_{false};  // set, with release, after thread_
  std::thread thread_;

  mutable SpinLock lock_;
  // Watched records that are not yet in the thread's list.
  EventRecord* incoming_ LEAT_GUARDED_BY(lock_) = nullptr;
  bool stopping_ LEAT_GUARDED_BY(lock_) = false;
  std::atomic<std::uint32_t> word_{kAwake};

  // Used by the thread alone:
  EventRecord* watched_ = nullptr;  // linked by EventRecord::next
  WaitPredictor predictor_;
};

}  // namespace leat::gpu::cuda
