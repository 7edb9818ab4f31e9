#include "leat/csp/sched/timers.h"

#include <utility>

namespace leat {

// Makes one heap of two, either of which may be null: the later root becomes the first child of the
// earlier one.
Timer* TimerHeap::meld(Timer* a, Timer* b) noexcept {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  if (b->at < a->at || (b->at == a->at && b->sequence < a->sequence)) std::swap(a, b);
  b->before = a;
  b->sibling = a->child;
  if (b->sibling != nullptr) b->sibling->before = b;
  a->child = b;
  return a;
}

// Two passes, without recursion: siblings are melded in pairs from left to right, then the pairs
// from right to left. The amortised bound needs that order.
Timer* TimerHeap::meld_siblings(Timer* first) noexcept {
  Timer* pairs = nullptr;  // a stack, linked by `sibling`
  while (first != nullptr) {
    Timer* const a = first;
    Timer* const b = a->sibling;
    first = b != nullptr ? b->sibling : nullptr;
    a->sibling = nullptr;
    if (b != nullptr) b->sibling = nullptr;
    Timer* const pair = meld(a, b);
    pair->sibling = pairs;
    pairs = pair;
  }
  Timer* root = nullptr;
  while (pairs != nullptr) {
    Timer* const pair = std::exchange(pairs, pairs->sibling);
    pair->sibling = nullptr;
    root = meld(root, pair);
  }
  return root;
}

void TimerHeap::add(Timer& timer) noexcept {
  timer.sequence = next_sequence_++;
  timer.queued = true;
  timer.child = timer.sibling = timer.before = nullptr;
  root_ = meld(root_, &timer);
}

void TimerHeap::remove(Timer& timer) noexcept {
  if (!timer.queued) return;
  timer.queued = false;
  Timer* const orphans = meld_siblings(timer.child);
  if (root_ == &timer) {
    root_ = orphans;
  } else {
    (timer.before->child == &timer ? timer.before->child : timer.before->sibling) = timer.sibling;
    if (timer.sibling != nullptr) timer.sibling->before = timer.before;
    root_ = meld(root_, orphans);
  }
  if (root_ != nullptr) root_->before = nullptr;
}

Timer& TimerHeap::pop() noexcept {
  Timer& timer = *root_;
  remove(timer);
  return timer;
}

}  // namespace leat
