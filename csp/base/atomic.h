// The atomics that several threads of the core share: std::atomic, or in an exploring build a class
// through which the explorer sees every access.
#pragma once

#include <atomic>

#include "leat/csp/explore/hooks.h"

namespace leat {

#if !defined(LEAT_EXPLORE)

template <class T>
using Atomic = std::atomic<T>;

#else

/// As std::atomic, with a sched_point() before every access. An access that does not change the
/// value counts as a read.
template <class T>
class Atomic {
 public:
  constexpr Atomic() noexcept : value_{} {}
  constexpr Atomic(T value) noexcept : value_(value) {}  // NOLINT(google-explicit-constructor)
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order = std::memory_order_seq_cst) const noexcept {
    hooks::sched_point();
    hooks::accessed(&value_, false);
    return value_.load();
  }
  void store(T value, std::memory_order = std::memory_order_seq_cst) noexcept { exchange(value); }
  T exchange(T value, std::memory_order = std::memory_order_seq_cst) noexcept {
    hooks::sched_point();
    const T old = value_.exchange(value);
    hooks::accessed(&value_, !(old == value));
    return old;
  }
  bool compare_exchange_strong(T& expected, T desired,
                               std::memory_order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) noexcept {
    hooks::sched_point();
    const bool done = value_.compare_exchange_strong(expected, desired);
    hooks::accessed(&value_, done);
    return done;
  }
  bool compare_exchange_weak(T& expected, T desired,
                             std::memory_order success = std::memory_order_seq_cst,
                             std::memory_order failure = std::memory_order_seq_cst) noexcept {
    return compare_exchange_strong(expected, desired, success, failure);
  }
  T fetch_add(T by, std::memory_order = std::memory_order_seq_cst) noexcept {
    hooks::sched_point();
    const T old = value_.fetch_add(by);
    hooks::accessed(&value_, by != T{});
    return old;
  }
  T fetch_sub(T by, std::memory_order = std::memory_order_seq_cst) noexcept {
    hooks::sched_point();
    const T old = value_.fetch_sub(by);
    hooks::accessed(&value_, by != T{});
    return old;
  }

  /// For the explorer itself: does not count as an access.
  [[nodiscard]] const std::atomic<T>& raw() const noexcept { return value_; }

 private:
  std::atomic<T> value_;
};

#endif

}  // namespace leat
