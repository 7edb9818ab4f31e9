#include "leat/gpu/host/memory.h"

#include <limits>
#include <new>
#include <string>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/park.h"
#include "leat/gpu/error.h"

namespace leat::gpu::host {
namespace {

// No allocator takes more: rounding the size up would overflow.
constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 2;

}  // namespace

HostMemory::Block::~Block() {
  if (memory_ != nullptr) ::operator delete(memory_, owner_->alignment_);
  if (reserved_) owner_->release(bytes_, freed_);
}

bool HostMemory::Block::allocate(const Engines& engines, bool waits, std::size_t& used) {
  reserved_ = owner_->reserve(bytes_, engines, waits, used);
  if (reserved_) memory_ = ::operator new(bytes_, owner_->alignment_, std::nothrow);
  return memory_ != nullptr;
}

void HostMemory::Block::free() noexcept {
  freed_ = true;
  owner_->note_freed(bytes_);
}

void HostMemory::Block::leak() noexcept {
  freed_ = false;
  owner_->note_leaked(bytes_);
}

std::shared_ptr<HostMemory::Block> HostMemory::allocate(std::size_t bytes, const Engines& engines,
                                                        bool waits) {
  auto block = std::make_shared<Block>(shared_from_this(), bytes);
  std::size_t used = 0;
  if (block->allocate(engines, waits, used)) return block;
  throw OutOfMemory(
      bytes, "allocate " + std::to_string(bytes) + " bytes of " + kind_ + " on " + engines.device(),
      "out of memory; " + std::to_string(used) + " bytes are in use of " + std::to_string(cap_) +
          "; use smaller batches or fewer slots");
}

bool HostMemory::worth_waiting_for(std::size_t bytes) const noexcept {
  return bytes <= kMost && bytes > cap_ - used_ && bytes <= cap_ - used_ + pending_free_;
}

bool HostMemory::reserve(std::size_t bytes, const Engines& engines, bool waits,
                         std::size_t& used) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  lock_.lock();
  callers_.add(calling_scheduler());
  while (waits && worth_waiting_for(bytes)) {
    lock_.unlock();
    wait_for_some(bytes, engines);
    lock_.lock();
  }
  used = used_;
  const bool fits = bytes <= kMost && bytes <= cap_ - used_;
  if (fits) used_ += bytes;
  lock_.unlock();
  return fits;
}

void HostMemory::wait_for_some(std::size_t bytes,
                               const Engines& engines) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  engines.refuse_foreign_virtual_time("to allocate what others are still giving back");
  const Shield shield;
  const ExpectWakeFrom passing(engines.scheduler());
  lock_.lock();
  int outcome = 0;
  if (worth_waiting_for(bytes)) {
    WaitNode node;
    outcome = wait_in(waiters_, node, lock_, ParkReason::kAwait, {.callers = &callers_});
  }
  lock_.unlock();
  if (outcome == Waiter::kCancelled) throw Cancelled{};
}

void HostMemory::note_freed(std::size_t bytes) noexcept {
  const SpinLockGuard guard(lock_);
  callers_.add(calling_scheduler());
  pending_free_ += bytes;
}

void HostMemory::note_leaked(std::size_t bytes) noexcept {
  WakeList wake;  // waiters check again whether waiting can help
  const SpinLockGuard guard(lock_);
  pending_free_ -= bytes;
  wake.add_all(waiters_);
}

void HostMemory::release(std::size_t bytes, bool expected) noexcept {
  WakeList wake;
  const SpinLockGuard guard(lock_);
  used_ -= bytes;
  if (expected) pending_free_ -= bytes;
  wake.add_all(waiters_);
}

}  // namespace leat::gpu::host
