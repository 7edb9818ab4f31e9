// Deadlines of parked fibers, earliest first; equal deadlines in the order they were added.
//
// Not thread-safe: the scheduler's lock protects the heap and the nodes in it. A binary heap with
// back-pointers, so that adding and removing cost O(log n) and no memory beyond the heap's array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/waiter.h"

namespace leat {

/// One operation's deadline; lives on the waiting fiber's stack.
struct Timer {
  TimePoint at;
  Operation* operation = nullptr;
  std::uint64_t sequence = 0;
  std::size_t index = kNotQueued;  // position in the heap

  static constexpr std::size_t kNotQueued = static_cast<std::size_t>(-1);
};

class TimerHeap {
 public:
  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  [[nodiscard]] TimePoint earliest() const noexcept { return heap_.front()->at; }
  /// Makes add() of up to `count` timers at a time free of allocation.
  void reserve(std::size_t count);
  void add(Timer& timer);
  /// Takes `timer` out if it is still in.
  void remove(Timer& timer) noexcept;
  /// Takes out the earliest timer.
  Timer& pop() noexcept;

 private:
  static bool before(const Timer& a, const Timer& b) noexcept {
    return a.at != b.at ? a.at < b.at : a.sequence < b.sequence;
  }
  void place(Timer& timer, std::size_t index) noexcept;
  void sift_up(Timer& timer, std::size_t index) noexcept;
  void sift_down(Timer& timer, std::size_t index) noexcept;

  std::vector<Timer*> heap_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace leat
