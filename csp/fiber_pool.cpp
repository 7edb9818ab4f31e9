#include "leat/csp/fiber_pool.h"

#include <memory>
#include <new>

#include "leat/csp/sanitizers.h"

namespace leat {

void FiberPool::FreeSlab::operator()(Fiber* slab) const noexcept {
  for (std::size_t i = 0; i < kSlab; ++i) std::destroy_at(slab + i);
  ::operator delete(slab, std::align_val_t(alignof(Fiber)));
}

void FiberPool::add_slab() {
  slabs_.reserve(slabs_.size() + 1);
  auto* const slab =
      static_cast<Fiber*>(::operator new(kSlab * sizeof(Fiber), std::align_val_t(alignof(Fiber))));
  for (std::size_t i = 0; i < kSlab; ++i) std::construct_at(slab + i, core_);
  slabs_.emplace_back(slab);
  for (std::size_t i = kSlab; i-- > 0;) {
    slab[i].next_.set(free_);
    free_ = &slab[i];
    hand_over(&slab[i]);
  }
}

Fiber* FiberPool::slab_at(std::size_t index) {
  const SpinLockGuard guard(lock_);
  return index < slabs_.size() ? slabs_[index].get() : nullptr;
}

Fiber* FiberPool::take_chain(int most, int& count) {
  const SpinLockGuard guard(lock_);
  if (free_ == nullptr) add_slab();
  Fiber* const first = free_;
  Fiber* last = first;
  for (count = 1; count < most && last->next_.get() != nullptr; ++count) last = last->next_.get();
  free_ = last->next_.get();
  last->next_.set(nullptr);
  return first;
}

void FiberPool::put_chain(Fiber& first, Fiber& last) noexcept {
  const SpinLockGuard guard(lock_);
  last.next_.set(free_);
  free_ = &first;
}

Fiber& FiberPool::take() {
  int count = 0;
  Fiber& fiber = *take_chain(1, count);
  take_over(&fiber);
  return fiber;
}

void FiberPool::put(Fiber& fiber) noexcept {
  hand_over(&fiber);
  put_chain(fiber, fiber);
}

Fiber& FiberPool::Cache::take(FiberPool& pool) {
  if (first_.get() == nullptr) {
    int count = 0;
    first_.set(pool.take_chain(kBatch, count));
    count_.set(count);
  }
  Fiber& fiber = *first_.get();
  take_over(&fiber);
  first_.set(fiber.next_.get());
  count_.add(-1);
  return fiber;
}

void FiberPool::Cache::put(FiberPool& pool, Fiber& fiber) noexcept {
  hand_over(&fiber);
  fiber.next_.set(first_.get());
  first_.set(&fiber);
  if (count_.add(1) < 4 * kBatch) return;
  // Who launches on one worker what ends on another would otherwise grow without bound.
  Fiber* last = first_.get();
  for (int i = 1; i < kBatch; ++i) last = last->next_.get();
  first_.set(last->next_.get());
  count_.add(-kBatch);
  pool.put_chain(fiber, *last);
}

}  // namespace leat
