// OsThread and OsMutex: std::thread and std::mutex, or in an exploring build their simulations.
#pragma once

#if defined(LEAT_EXPLORE)

#include <utility>

#include "leat/csp/base/spin_lock.h"
#include "leat/csp/base/unique_function.h"

namespace leat {

/// A thread that the explorer simulates, with the part of std::thread's interface that is needed.
/// Only while an exploration runs (csp/explore.h).
class SimulatedThread {
 public:
  SimulatedThread() = default;
  template <class F>
  explicit SimulatedThread(F&& body) : id_(start(UniqueFunction<void()>(std::forward<F>(body)))) {}
  SimulatedThread(SimulatedThread&& other) noexcept : id_(std::exchange(other.id_, kNone)) {}
  SimulatedThread& operator=(SimulatedThread&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  /// Joins.
  ~SimulatedThread() {
    if (id_ != kNone) join();
  }

  [[nodiscard]] bool joinable() const noexcept { return id_ != kNone; }
  /// Waits until the thread's function has returned. On a fiber, this blocks the worker.
  void join() noexcept;
  /// Waits until the thread sleeps (in a channel operation, for instance) or has ended: for a
  /// caller that must come after it.
  void wait_until_it_waits() noexcept;

 private:
  static constexpr int kNone = -1;
  static int start(UniqueFunction<void()> body);

  int id_ = kNone;
};

using OsThread = SimulatedThread;

/// The simulation of std::mutex.
class OsMutex {
 public:
  void lock() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS { lock_.lock(); }
  void unlock() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS { lock_.unlock(); }

 private:
  SpinLock lock_;
};

}  // namespace leat

#else

#include <mutex>
#include <thread>

namespace leat {

using OsThread = std::thread;
using OsMutex = std::mutex;

}  // namespace leat

#endif
