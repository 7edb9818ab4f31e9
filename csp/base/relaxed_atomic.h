// A variable that one thread at a time writes, spelt as an atomic.
#pragma once

#include <atomic>

namespace leat {

/// Relaxed loads and stores, which cost no more than plain ones. There are two reasons for them: to
/// ThreadSanitizer the fibers that run on one worker in turn are separate threads, and other
/// threads may read the value as a hint. In the second case `Cell` is Atomic.
template <class T, template <class> class Cell = std::atomic>
class RelaxedAtomic {
 public:
  constexpr RelaxedAtomic() noexcept : value_{} {}
  constexpr explicit RelaxedAtomic(T value) noexcept : value_(value) {}
  RelaxedAtomic(const RelaxedAtomic&) = delete;
  RelaxedAtomic& operator=(const RelaxedAtomic&) = delete;

  [[nodiscard]] T get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(T value) noexcept { value_.store(value, std::memory_order_relaxed); }
  /// Adds `step` and returns the sum. By the writing thread alone: this is a load and a store, not
  /// one atomic step.
  T add(T step) noexcept {
    const T sum = get() + step;
    set(sum);
    return sum;
  }

 private:
  Cell<T> value_;
};

}  // namespace leat
