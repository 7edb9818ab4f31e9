// Fibers of Boost.Fiber as guests: a program that already runs them uses Leat's channels from them.
//
// Example
//   const leat::BoostFiberGuests guests;             // for this thread
//   leat::Channel<int> c(0, "numbers");
//   boost::fibers::fiber sender([=] { c.send(42); });
//   const int answer = c.recv().value();             // `sender` runs meanwhile, on this thread
//   sender.join();
//
// What waits without a guests object blocks its thread, and all Boost fibers on it: also in a
// rendezvous with one of them, for ever. With one, only the waiting fiber is suspended; the
// thread's main context, which is a fiber to Boost.Fiber, waits in the same way. That holds for
// whatever waits in csp: channels, select, Selector, Mutex, Semaphore, WaitGroup, Notification,
// sleep_for, TaskGroup::wait and Scheduler::join; leat::yield() and blocking() are as on a plain
// thread.
//
// To Leat a guest is a plain thread: its clock is the machine's, it is never cancelled (close wakes
// it), and what it has ever operated on is in no report of a deadlock.
//
// Whoever wakes a guest uses Boost.Fiber for that, also on a worker of Leat's. Each thread that
// does gets a scheduler of Boost.Fiber's at the first time, with a stack of 128 KiB, hardly
// touched.
//
// This header is there where CMake has found Boost.Fiber (1.74 or newer). No library of Leat's is
// linked with it: link your program with Boost::fiber, and with leat::csp.
#pragma once

#include <atomic>
#include <boost/fiber/condition_variable.hpp>
#include <thread>

#include "leat/csp/clock.h"
#include "leat/csp/wait/guest.h"
#include "leat/csp/wait/spin_lock.h"
#include "leat/csp/wait/thread_annotations.h"
#include "leat/csp/wait/waiter.h"

namespace leat {

/// A fiber of Boost.Fiber. Lives on the stack of the waiting call, and goes on in whatever thread
/// Boost.Fiber's algorithm chooses. Is never cancelled.
class BoostFiberWaiter final : public Waiter {
 public:
  void park(Deadline deadline,
            const HeldLocks& held) noexcept override LEAT_NO_THREAD_SAFETY_ANALYSIS {
    lock_.lock();
    held.unlock_after_switch();  // who claims from now on waits for lock_ in ready()
    while (!ready_) {
      // Drops lock_ once this fiber stands in the condition's queue, and lets nobody notify before
      // it has been switched away from.
      if (deadline.is_never()) {
        condition_.wait(lock_);
      } else if (condition_.wait_until(lock_, deadline.at()) == boost::fibers::cv_status::timeout &&
                 !ready_) {
        if (claim(kTimedOut)) {
          lock_.unlock();
          return;  // nobody will call ready()
        }
        deadline = Deadline::never();  // a peer was faster: its ready() comes
      }
    }
    lock_.unlock();
    // Whoever has notified may still be about to leave this object, and the scheduler that runs
    // this fiber, either of which may go once park() has returned. Some nanoseconds, unless that
    // thread has lost its CPU.
    while (!left_.load(std::memory_order_acquire)) std::this_thread::yield();
  }

  void ready() noexcept override {
    {
      const SpinLockGuard guard(lock_);
      ready_ = true;
    }
    condition_.notify_one();
    // release: all that was done to this object is done. From here *this may be gone.
    left_.store(true, std::memory_order_release);
  }

 private:
  SpinLock lock_;
  bool ready_ LEAT_GUARDED_BY(lock_) = false;
  boost::fibers::condition_variable_any condition_;  // nobody but ready() notifies
  std::atomic<bool> left_{false};
};

/// While one lives, Boost fibers on the thread that made it wait as the top of the file says; waits
/// that have begun by then, or are going on when it goes, end as they began. Made and destroyed on
/// the same thread: by its main context, best of all. Where the algorithm moves fibers between
/// threads, each of these needs one. Nests. Throws std::logic_error on a fiber of Leat's; leat::run
/// on a thread that has one is allowed, and blocks its Boost fibers meanwhile.
class BoostFiberGuests {
 public:
  /// For the calling thread, until it is destroyed.
  BoostFiberGuests()
      : previous_(set_guest_wait([](void (*operation)(void*, Waiter&), void* argument) {
          BoostFiberWaiter waiter;
          operation(argument, waiter);
        })) {}
  ~BoostFiberGuests() { reset_guest_wait(previous_); }
  BoostFiberGuests(const BoostFiberGuests&) = delete;
  BoostFiberGuests& operator=(const BoostFiberGuests&) = delete;

 private:
  const GuestWait previous_;
};

}  // namespace leat
