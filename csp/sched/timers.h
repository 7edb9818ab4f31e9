// What is due at some time, earliest first; equal times in the order they were added.
//
// Not thread-safe: the scheduler's lock protects the heap and the timers in it. A pairing heap
// (Fredman, Sedgewick, Sleator, Tarjan 1986) through the timers themselves: nothing is allocated.
// Adding is O(1); taking out is O(log n), amortised.
#pragma once

#include <cstdint>

#include "leat/csp/clock.h"

namespace leat {

class Alarm;
class Fiber;

/// Something that is due at a time: the deadline of a fiber's operation, on that fiber's stack, or
/// an alarm.
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
  /// Takes `timer` out if it is still in.
  void remove(Timer& timer) noexcept;
  /// Takes out the earliest timer.
  Timer& pop() noexcept;

 private:
  static Timer* meld(Timer* a, Timer* b) noexcept;
  static Timer* meld_siblings(Timer* first) noexcept;

  Timer* root_ = nullptr;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace leat
