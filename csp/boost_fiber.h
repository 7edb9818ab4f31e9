// Fibers of Boost.Fiber as guests: a program that already runs them uses Leat's channels from them.
//
// Example
//   const leat::BoostFiberGuests guests;             // for this thread
//   leat::Channel<int> c(0, "numbers");
//   boost::fibers::fiber sender([=] { c.send(42); });
//   const int answer = c.recv().value();             // `sender` runs meanwhile, on this thread
//   sender.join();
//
// While a BoostFiberGuests lives on a thread, an operation that waits suspends its Boost fiber
// only. The thread's main context, which is a fiber to Boost.Fiber, waits in the same way. This
// holds for channels, select, Selector, Mutex, Semaphore, WaitGroup, Notification, sleep_for,
// TaskGroup::wait and Scheduler::join. leat::yield() and blocking() act as on a plain thread.
//
// Without a BoostFiberGuests, an operation that waits blocks its thread and all Boost fibers there.
// A rendezvous of two of them then blocks for ever.
//
// To Leat a guest is a plain thread. Its clock is the machine's. It is never cancelled: close a
// channel to wake it. No deadlock is reported for a fiber that waits on an object of a guest.
//
// A thread that wakes a guest uses Boost.Fiber for that, also if it is a worker of Leat. The first
// time, Boost.Fiber makes a scheduler for that thread, with a stack of 128 KiB, hardly touched.
//
// The header is installed if CMake has found Boost.Fiber (1.74 or newer). No library of Leat is
// linked with Boost.Fiber: link your program with Boost::fiber and with leat::csp.
#pragma once

#include <atomic>
#include <boost/fiber/condition_variable.hpp>
#include <thread>

#include "leat/csp/base/spin_lock.h"
#include "leat/csp/base/thread_annotations.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/guest.h"
#include "leat/csp/wait/waiter.h"

namespace leat {

/// Lets a fiber of Boost.Fiber wait for one operation. Lives on the stack of the waiting call. The
/// fiber continues on the thread that Boost.Fiber's algorithm chooses. It is never cancelled.
class BoostFiberWaiter final : public Waiter {
 public:
  void park(Deadline deadline,
            const HeldLocks& held) noexcept override LEAT_NO_THREAD_SAFETY_ANALYSIS {
    lock_.lock();
    held.unlock_after_switch();  // a claimer waits for lock_ in ready() from now on
    while (!ready_) {
      // Drops lock_ once this fiber stands in the condition's queue, and no thread can notify the
      // condition before this fiber has been switched away from.
      if (deadline.is_never()) {
        condition_.wait(lock_);
      } else if (condition_.wait_until(lock_, SteadyClock::to_std(deadline.at())) ==
                     boost::fibers::cv_status::timeout &&
                 !ready_) {
        if (claim(kTimedOut)) {
          lock_.unlock();
          return;  // ready() will not be called
        }
        deadline = Deadline::never();  // a peer was faster: its ready() comes
      }
    }
    lock_.unlock();
    // The thread that notified may still be inside this object and the scheduler that runs this
    // fiber. Both may be destroyed once park() has returned. This takes some nanoseconds, unless
    // that thread has lost its CPU.
    while (!left_.load(std::memory_order_acquire)) std::this_thread::yield();
  }

  void ready() noexcept override {
    {
      const SpinLockGuard guard(lock_);
      ready_ = true;
    }
    condition_.notify_one();
    // release: after every access to this object. From here *this may be gone.
    left_.store(true, std::memory_order_release);
  }

 private:
  SpinLock lock_;
  bool ready_ LEAT_GUARDED_BY(lock_) = false;
  boost::fibers::condition_variable_any condition_;  // only ready() notifies it
  std::atomic<bool> left_{false};
};

/// A guard for the thread that makes it: while it lives, Boost fibers on that thread wait as the
/// head of this file says. A wait that has begun ends as it began, whether the guard is made or
/// destroyed meanwhile.
///
/// Made and destroyed on the same thread, at best by its main context. If Boost.Fiber's algorithm
/// moves fibers between threads, each of these threads needs one. Guards nest. leat::run() is
/// allowed on such a thread, and blocks its Boost fibers meanwhile.
class BoostFiberGuests {
 public:
  /// Begins the guard of the calling thread. Throws std::logic_error on a fiber of Leat.
  [[nodiscard]] BoostFiberGuests()
      : previous_(set_guest_wait([](void (*operation)(void*, Waiter&), void* argument) {
          BoostFiberWaiter waiter;
          operation(argument, waiter);
        })) {}
  /// Ends the guard and restores the previous one.
  ~BoostFiberGuests() { reset_guest_wait(previous_); }
  BoostFiberGuests(const BoostFiberGuests&) = delete;
  BoostFiberGuests& operator=(const BoostFiberGuests&) = delete;

 private:
  const GuestWait previous_;
};

}  // namespace leat
