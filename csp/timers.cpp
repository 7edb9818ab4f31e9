#include "leat/csp/timers.h"

#include <algorithm>

namespace leat {

// Grows by doubling: reserve() is called once for each fiber that is launched.
void TimerHeap::reserve(std::size_t count) {
  if (count > heap_.capacity()) heap_.reserve(std::max(count, 2 * heap_.capacity()));
}

void TimerHeap::add(Timer& timer) {
  timer.sequence = next_sequence_++;
  heap_.push_back(&timer);
  sift_up(timer, heap_.size() - 1);
}

void TimerHeap::remove(Timer& timer) noexcept {
  if (timer.index == Timer::kNotQueued) return;
  const std::size_t hole = timer.index;
  Timer& last = *heap_.back();
  heap_.pop_back();
  timer.index = Timer::kNotQueued;
  if (&last == &timer) return;
  sift_up(last, hole);
  sift_down(last, last.index);
}

Timer& TimerHeap::pop() noexcept {
  Timer& timer = *heap_.front();
  remove(timer);
  return timer;
}

void TimerHeap::place(Timer& timer, std::size_t index) noexcept {
  heap_[index] = &timer;
  timer.index = index;
}

void TimerHeap::sift_up(Timer& timer, std::size_t index) noexcept {
  while (index > 0) {
    const std::size_t parent = (index - 1) / 2;
    if (!before(timer, *heap_[parent])) break;
    place(*heap_[parent], index);
    index = parent;
  }
  place(timer, index);
}

void TimerHeap::sift_down(Timer& timer, std::size_t index) noexcept {
  for (;;) {
    std::size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && before(*heap_[child + 1], *heap_[child])) ++child;
    if (!before(*heap_[child], timer)) break;
    place(*heap_[child], index);
    index = child;
  }
  place(timer, index);
}

}  // namespace leat
