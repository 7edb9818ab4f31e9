#include "leat/csp/fiber/fiber_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "leat/csp/wait/sanitizers.h"

namespace leat {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kFirstSlab = 64;  // fibers
constexpr std::size_t kLargestSlab = kHugePage / sizeof(Fiber);

}  // namespace

FiberPool::Slab::Slab(std::size_t size)
    : size_(size), memory_(static_cast<Fiber*>(::operator new(size * sizeof(Fiber), alignment()))) {
  // A million fibers fill 60,000 small pages. No effect if the system has no huge pages.
  if (size * sizeof(Fiber) >= kHugePage) madvise(memory_, size * sizeof(Fiber), MADV_HUGEPAGE);
}

FiberPool::Slab::Slab(Slab&& other) noexcept
    : size_(other.size_),
      made_(std::exchange(other.made_, 0)),
      memory_(std::exchange(other.memory_, nullptr)) {}

FiberPool::Slab::~Slab() {
  std::destroy_n(memory_, made_);
  ::operator delete(memory_, alignment());
}

std::align_val_t FiberPool::Slab::alignment() const noexcept {
  return std::align_val_t(size_ * sizeof(Fiber) >= kHugePage ? kHugePage : alignof(Fiber));
}

Fiber& FiberPool::Slab::make(SchedulerCore& core) noexcept {
  return *std::construct_at(memory_ + made_++, core);
}

std::span<Fiber> FiberPool::slab_at(std::size_t index) {
  const SpinLockGuard guard(lock_);
  return index < slabs_.size() ? slabs_[index].made() : std::span<Fiber>();
}

// Fibers are constructed as they are needed, so that their launcher finds them in its CPU's cache.
Fiber* FiberPool::make_chain(int most, int& count) {
  if (slabs_.empty() || slabs_.back().is_full()) {
    slabs_.emplace_back(slabs_.empty() ? kFirstSlab
                                       : std::min(2 * slabs_.back().size(), kLargestSlab));
  }
  Slab& slab = slabs_.back();
  Fiber* first = nullptr;
  Fiber* last = nullptr;
  for (count = 0; count < most && !slab.is_full(); ++count) {
    Fiber& fiber = slab.make(core_);
    if (last == nullptr) {
      first = &fiber;
    } else {
      last->next_.set(&fiber);
      tsan_release(last);
    }
    last = &fiber;
  }
  tsan_release(last);
  return first;
}

Fiber* FiberPool::take_chain(int most, int& count) {
  const SpinLockGuard guard(lock_);
  if (free_ == nullptr) return make_chain(most, count);
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
  tsan_acquire(&fiber);
  return fiber;
}

void FiberPool::put(Fiber& fiber) noexcept {
  tsan_release(&fiber);
  put_chain(fiber, fiber);
}

Fiber& FiberPool::Cache::take(FiberPool& pool) {
  if (first_.get() == nullptr) {
    int count = 0;
    first_.set(pool.take_chain(kBatch, count));
    count_.set(count);
  }
  Fiber& fiber = *first_.get();
  tsan_acquire(&fiber);
  first_.set(fiber.next_.get());
  count_.add(-1);
  return fiber;
}

void FiberPool::Cache::put(FiberPool& pool, Fiber& fiber) noexcept {
  tsan_release(&fiber);
  fiber.next_.set(first_.get());
  first_.set(&fiber);
  if (count_.add(1) < 4 * kBatch) return;
  // Without this, a program that launches fibers on one worker and ends them on another would grow
  // one cache without bound.
  Fiber* last = first_.get();
  for (int i = 1; i < kBatch; ++i) last = last->next_.get();
  first_.set(last->next_.get());
  count_.add(-kBatch);
  pool.put_chain(fiber, *last);
}

}  // namespace leat
