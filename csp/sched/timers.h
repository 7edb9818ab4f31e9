// A priority queue of timers, earliest first; equal times in the order in which they were added.
//
// A leftist heap (Crane 1972) whose links are in the timers: nothing is allocated, and every single
// operation takes O(log n). A bound on the average would not do, since SchedulerCore::lock_, a spin
// lock, is held during each operation. Not thread-safe: that lock guards the heap and its timers.
#pragma once

#include <cstdint>

#include "leat/csp/clock.h"

namespace leat {

class Alarm;
class Fiber;

/// A point in time at which something is due: the deadline of a fiber's operation (the timer is on
/// that fiber's stack), or an alarm.
struct Timer {
  TimePoint at;
  Fiber* fiber = nullptr;
  Alarm* alarm = nullptr;

  // The heap's own.
  std::uint64_t sequence = 0;
  bool queued = false;
  int rank = 0;  // the number of timers on the path down that always goes right
  Timer* left = nullptr;
  Timer* right = nullptr;  // of no larger rank than `left`, so of at most log2(n + 1)
  Timer* parent = nullptr;
};

class TimerHeap {
 public:
  [[nodiscard]] bool empty() const noexcept { return root_ == nullptr; }
  [[nodiscard]] TimePoint earliest() const noexcept { return root_->at; }
  void add(Timer& timer) noexcept;
  /// Removes `timer`. No effect if it is not in the heap.
  void remove(Timer& timer) noexcept;
  /// Removes and returns the earliest timer. The heap must not be empty.
  Timer& pop() noexcept;

 private:
  static Timer* meld(Timer* a, Timer* b) noexcept;

  Timer* root_ = nullptr;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace leat
