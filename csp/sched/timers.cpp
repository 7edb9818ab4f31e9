#include "leat/csp/sched/timers.h"

#include <utility>

namespace leat {
namespace {

bool is_before(const Timer& a, const Timer& b) noexcept {
  return a.at < b.at || (a.at == b.at && a.sequence < b.sequence);
}

int rank_of(const Timer* timer) noexcept { return timer != nullptr ? timer->rank : 0; }

// Sets the timer's rank, once its children are in place. Returns whether the rank has changed.
bool restore(Timer& timer) noexcept {
  if (rank_of(timer.left) < rank_of(timer.right)) std::swap(timer.left, timer.right);
  const int before = std::exchange(timer.rank, rank_of(timer.right) + 1);
  return timer.rank != before;
}

}  // namespace

// Makes one heap of two, either of which may be null: merges the paths that go right from the two
// roots. Returns the root, without a parent.
Timer* TimerHeap::meld(Timer* a, Timer* b) noexcept {
  Timer* root = nullptr;
  Timer* last = nullptr;  // of the merged path
  const auto append = [&](Timer* next) {
    (last != nullptr ? last->right : root) = next;
    if (next != nullptr) next->parent = last;
  };
  while (a != nullptr && b != nullptr) {
    if (is_before(*b, *a)) std::swap(a, b);
    append(a);
    last = std::exchange(a, a->right);
  }
  append(a != nullptr ? a : b);
  for (; last != nullptr; last = last->parent) restore(*last);
  return root;
}

void TimerHeap::add(Timer& timer) noexcept {
  timer.sequence = next_sequence_++;
  timer.queued = true;
  timer.rank = 1;
  timer.left = timer.right = nullptr;
  root_ = meld(root_, &timer);
}

void TimerHeap::remove(Timer& timer) noexcept {
  if (!timer.queued) return;
  timer.queued = false;
  Timer* above = timer.parent;
  Timer* const below = meld(timer.left, timer.right);
  if (below != nullptr) below->parent = above;
  if (above == nullptr) {
    root_ = below;
    return;
  }
  (above->left == &timer ? above->left : above->right) = below;
  // Of the timers whose rank goes down, each has a larger one than the timer below it: they are
  // few.
  while (above != nullptr && restore(*above)) above = above->parent;
}

Timer& TimerHeap::pop() noexcept {
  Timer& timer = *root_;
  remove(timer);
  return timer;
}

}  // namespace leat
