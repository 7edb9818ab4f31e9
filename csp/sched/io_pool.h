// The threads on which blocking() runs what would block a worker.
//
// Always true under lock_: a call that waits in calls_ is undecided, hence may be cancelled; a
// thread claims it when it takes it, runs it, and then makes its fiber ready. While calls wait, no
// thread is idle, and there are as many threads as there may be, or one is about to be started.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/os_thread.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/queue.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat {

/// What a call is to the pool; lives on the stack of the fiber that waits for it.
class BlockingCall : public WaitNode {
 public:
  BlockingCall() = default;
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;
  /// On a thread of the pool. Catches what it throws.
  virtual void run() noexcept = 0;

 protected:
  ~BlockingCall() = default;
};

/// Starts threads as they are needed, up to a bound; one that has been idle for kIdle ends. Thread-
/// and fiber-safe, but for construction and the end.
class IoPool {
 public:
  explicit IoPool(int most_threads) noexcept : most_threads_(most_threads) {}
  ~IoPool() { end(); }
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;

  /// Waits until `call` has run. Throws Cancelled if the calling fiber is asked to stop before a
  /// thread has taken the call; from then on it waits for its end. Throws leat::Error if there is
  /// no thread and none can be started.
  void run(BlockingCall& call);
  /// Ends and joins all threads; no call is left, and none will come. Idempotent. Not on one of
  /// them: whoever owns a scheduler ends its pool before he lets go of it.
  void end() noexcept;
  /// Threads there are now.
  [[nodiscard]] int threads() const noexcept LEAT_EXCLUDES(lock_);

 private:
  static constexpr Duration kIdle = std::chrono::seconds(5);

  void make_room();
  void work(std::list<OsThread>::iterator self) noexcept;
  /// Null: this thread has been idle for too long, or the pool ends.
  BlockingCall* take() noexcept LEAT_EXCLUDES(lock_);
  void join_ended();

  const int most_threads_;
  mutable SpinLock lock_;
  WaitQueue calls_;  // changed under lock_
  int threads_ LEAT_GUARDED_BY(lock_) = 0;
  int free_ LEAT_GUARDED_BY(lock_) = 0;     // of these, without a call
  int waiting_ LEAT_GUARDED_BY(lock_) = 0;  // calls, or about to be
  bool ending_ LEAT_GUARDED_BY(lock_) = false;
  Atomic<std::uint32_t> word_{0};  // idle threads sleep on it; changed under lock_

  OsMutex handles_mutex_;
  std::list<OsThread> running_;  // handles_mutex_
  std::list<OsThread> ended_;    // likewise: to be joined
};

}  // namespace leat
