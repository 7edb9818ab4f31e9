// The threads on which blocking() runs calls that would block a worker.
//
// Always true under lock_:
//  - a call in calls_ is undecided, so its fiber may still be cancelled. A thread claims the call
//    when it takes it, runs it, and then makes the fiber ready;
//  - of threads_, busy_ run a call. The others are idle, or about to be: one may still make the
//    fiber of its latest call ready;
//  - while more calls wait than threads are idle, there are most_threads_ threads, or run() will
//    start one.
#pragma once

#include <cstdint>
#include <list>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/os_thread.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/wait/queue.h"

namespace leat {

/// A call as the pool sees it. It lives on the stack of the fiber that waits for it.
class BlockingCall : public WaitNode {
 public:
  BlockingCall() = default;
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;
  /// Runs the call on a thread of the pool, and catches its exceptions.
  virtual void run() noexcept = 0;

 protected:
  ~BlockingCall() = default;
};

/// Starts threads as they are needed, up to a bound. A thread that has been idle for
/// tuning::kIdleIoThread ends. Thread- and fiber-safe, except for construction and end().
class IoPool {
 public:
  explicit IoPool(int most_threads) noexcept : most_threads_(most_threads) {}
  ~IoPool() { end(); }
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;

  /// Waits until `call` has run. Throws Cancelled if the calling fiber is asked to stop before a
  /// thread has taken the call; after that it waits until the call returns. Throws leat::Error if
  /// there is no thread and none can be started.
  void run(BlockingCall& call);
  /// Ends and joins all threads. No call may be left, and none may come. Idempotent. Must not be
  /// called on a thread of the pool: a call that owns a scheduler cannot be the one that destroys
  /// it.
  void end() noexcept;
  /// Returns the present number of threads.
  [[nodiscard]] int threads() const noexcept LEAT_EXCLUDES(lock_);

 private:
  static void unlock_and_wake(void* self) noexcept;
  /// Counts a call that is about to wait, and starts a thread if no idle one is left for it.
  void start_thread_if_needed();
  void work(std::list<OsThread>::iterator self) noexcept;
  /// Waits for a call and claims it. Null if the thread was idle for too long, or if the pool ends.
  BlockingCall* take() noexcept LEAT_EXCLUDES(lock_);
  void join_ended();
  [[nodiscard]] int idle() const noexcept LEAT_REQUIRES(lock_) { return threads_ - busy_; }

  const int most_threads_;
  mutable SpinLock lock_;
  WaitQueue calls_;  // changed under lock_
  int threads_ LEAT_GUARDED_BY(lock_) = 0;
  int busy_ LEAT_GUARDED_BY(lock_) = 0;
  int waiting_ LEAT_GUARDED_BY(lock_) = 0;  // calls that wait, or are about to
  bool ending_ LEAT_GUARDED_BY(lock_) = false;
  Atomic<std::uint32_t> word_{0};  // idle threads sleep on it; changed under lock_

  OsMutex handles_mutex_;
  std::list<OsThread> running_;  // handles_mutex_
  std::list<OsThread> ended_;    // handles_mutex_; to be joined
};

}  // namespace leat
