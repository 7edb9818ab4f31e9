// A priority queue of timers, earliest first; equal times in the order in which they were added.
//
// A pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986) whose links are in the timers: nothing
// is allocated. Adding takes O(1), removing O(log n) amortised. Not thread-safe:
// SchedulerCore::lock_ guards the heap and the timers in it.
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
  Timer* child = nullptr;
  Timer* sibling = nullptr;
  Timer* before = nullptr;  // the sibling before it, or for a first child its parent
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
  static Timer* meld_siblings(Timer* first) noexcept;

  Timer* root_ = nullptr;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace leat
