// The atomics that several threads of the core share: std::atomic, or in an exploring or a chaos
// build a class that calls the hooks at every access.
#pragma once

#include <atomic>

#include "leat/csp/base/hooks.h"

namespace leat {

#if !defined(LEAT_EXPLORE) && !defined(LEAT_CHAOS)

template <class T>
using Atomic = std::atomic<T>;

#else

/// As std::atomic, with a sched_point() before every access and accessed() after it. An access that
/// does not change the value counts as a read.
template <class T>
class Atomic {
 public:
  constexpr Atomic() noexcept : value_{} {}
  constexpr Atomic(T value) noexcept : value_(value) {}  // NOLINT(google-explicit-constructor)
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst) const noexcept {
    hooks::sched_point();
    const T value = value_.load(order);
    hooks::accessed(&value_, false);
    return value;
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
#if defined(LEAT_EXPLORE)
    exchange(value, order);  // to learn whether the value changes
#else
    value_.store(value, order);
    hooks::accessed(&value_, true);
#endif
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    hooks::sched_point();
    const T old = value_.exchange(value, order);
    hooks::accessed(&value_, !(old == value));
    return old;
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure) noexcept {
    hooks::sched_point();
    const bool done = value_.compare_exchange_strong(expected, desired, success, failure);
    hooks::accessed(&value_, done);
    return done;
  }
  bool compare_exchange_strong(T& expected, T desired,
                               std::memory_order order = std::memory_order_seq_cst) noexcept {
    hooks::sched_point();
    const bool done = value_.compare_exchange_strong(expected, desired, order);
    hooks::accessed(&value_, done);
    return done;
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success,
                             std::memory_order failure) noexcept {
    return compare_exchange_strong(expected, desired, success, failure);
  }
  T fetch_add(T by, std::memory_order order = std::memory_order_seq_cst) noexcept {
    hooks::sched_point();
    const T old = value_.fetch_add(by, order);
    hooks::accessed(&value_, by != T{});
    return old;
  }
  T fetch_sub(T by, std::memory_order order = std::memory_order_seq_cst) noexcept {
    hooks::sched_point();
    const T old = value_.fetch_sub(by, order);
    hooks::accessed(&value_, by != T{});
    return old;
  }

  /// For futex_wait(): does not count as an access.
  [[nodiscard]] const std::atomic<T>& raw() const noexcept { return value_; }

 private:
  std::atomic<T> value_;
};

#endif

/// Stores a value that lets another thread go on, which may then free what the caller is about to
/// use. To the explorer that thread may be the next to run.
template <class T>
void release(Atomic<T>& what, T value) noexcept {
  what.store(value, std::memory_order_release);
  hooks::released();
}

}  // namespace leat
