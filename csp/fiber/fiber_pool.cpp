#include "leat/csp/fiber/fiber_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "leat/csp/base/sanitizers.h"

namespace leat {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kBatchBytes = tuning::kFiberBatch * sizeof(Fiber);
constexpr std::size_t kLargestSlab = kHugePage / kBatchBytes;  // batches

}  // namespace

FiberPool::Slab::Slab(std::size_t count)
    : batches(count),
      memory(static_cast<std::byte*>(::operator new(count* kBatchBytes, alignment()))) {
  try {
    made = std::make_unique<Atomic<Fiber*>[]>(count);
  } catch (...) {
    ::operator delete(memory, alignment());
    throw;
  }
  // A million fibers fill 60,000 small pages. No effect if the system has no huge pages.
  if (count * kBatchBytes >= kHugePage) madvise(memory, count * kBatchBytes, MADV_HUGEPAGE);
}

FiberPool::Slab::~Slab() {
  for (std::size_t i = 0; i < batches; ++i) {
    if (Fiber* const batch = made[i].load(std::memory_order_relaxed)) {
      std::destroy_n(batch, kBatch);
    }
  }
  ::operator delete(memory, alignment());
}

std::align_val_t FiberPool::Slab::alignment() const noexcept {
  return std::align_val_t(batches * kBatchBytes >= kHugePage ? kHugePage : alignof(Fiber));
}

FiberPool::~FiberPool() {
  for (Slab* slab = oldest_.load(std::memory_order_relaxed); slab != nullptr;) {
    delete std::exchange(slab, slab->newer.load(std::memory_order_relaxed));
  }
}

void FiberPool::append_slab(const Slab* newest) {
  auto slab =
      std::make_unique<Slab>(newest == nullptr ? 1 : std::min(2 * newest->batches, kLargestSlab));
  const SpinLockGuard guard(lock_);
  if (newest_.load(std::memory_order_relaxed) != newest) return;  // another thread was faster
  auto& place = newest == nullptr ? oldest_ : newest_.load(std::memory_order_relaxed)->newer;
  // release: publishes what the constructor wrote.
  place.store(slab.get(), std::memory_order_release);
  newest_.store(slab.release(), std::memory_order_release);
}

Fiber* FiberPool::make_chain() {
  for (;;) {
    Slab* const slab = newest_.load(std::memory_order_acquire);
    const std::size_t index =
        slab != nullptr ? slab->reserved.fetch_add(1, std::memory_order_relaxed) : 0;
    if (slab == nullptr || index >= slab->batches) {
      append_slab(slab);
      continue;
    }
    std::byte* const memory = slab->memory + index * kBatchBytes;
    Fiber* next = nullptr;
    for (std::size_t i = kBatch; i-- > 0;) {  // the first one last
      auto* const place = reinterpret_cast<Fiber*>(memory + i * sizeof(Fiber));
      Fiber* const fiber = std::construct_at(place, core_);
      fiber->next_.set(next);
      tsan_release(fiber);
      next = fiber;
    }
    // release: pairs with for_each_live().
    slab->made[index].store(next, std::memory_order_release);
    return next;
  }
}

Fiber* FiberPool::take_chain(int& count) {
  {
    const SpinLockGuard guard(lock_);
    if (Fiber* const first = free_) {
      Fiber* last = first;
      for (count = 1; count < kBatch && last->next_.get() != nullptr; ++count) {
        last = last->next_.get();
      }
      free_ = last->next_.get();
      last->next_.set(nullptr);
      return first;
    }
  }
  count = kBatch;
  return make_chain();
}

void FiberPool::put_chain(Fiber& first, Fiber& last) noexcept {
  const SpinLockGuard guard(lock_);
  last.next_.set(free_);
  free_ = &first;
}

Fiber& FiberPool::take() {
  Fiber* first = nullptr;
  {
    const SpinLockGuard guard(lock_);
    first = free_;
    if (first != nullptr) free_ = first->next_.get();
  }
  if (first == nullptr) {
    first = make_chain();
    put_chain(first[1], first[kBatch - 1]);
  }
  tsan_acquire(first);
  return *first;
}

void FiberPool::put(Fiber& fiber) noexcept {
  tsan_release(&fiber);
  put_chain(fiber, fiber);
}

Fiber& FiberPool::Cache::take(FiberPool& pool) {
  if (first_.get() == nullptr) {
    int count = 0;
    first_.set(pool.take_chain(count));
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
