// A variable that one worker's thread alone touches.
#pragma once

#include <atomic>

namespace leat {

/// Plain loads and stores, spelt as relaxed atomics: the fibers that run on a worker in turn are
/// several threads to ThreadSanitizer, and others may look at the value as a hint.
/// `Cell` is Atomic where others look at it.
template <class T, template <class> class Cell = std::atomic>
class RelaxedAtomic {
 public:
  constexpr RelaxedAtomic() noexcept : value_{} {}
  constexpr explicit RelaxedAtomic(T value) noexcept : value_(value) {}
  RelaxedAtomic(const RelaxedAtomic&) = delete;
  RelaxedAtomic& operator=(const RelaxedAtomic&) = delete;

  [[nodiscard]] T get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(T value) noexcept { value_.store(value, std::memory_order_relaxed); }
  /// By the owner alone: not one indivisible step.
  T add(T step) noexcept {
    const T sum = get() + step;
    set(sum);
    return sum;
  }

 private:
  Cell<T> value_;
};

}  // namespace leat
