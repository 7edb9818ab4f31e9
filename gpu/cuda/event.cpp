#include "leat/gpu/cuda/event.h"

namespace leat::gpu::cuda {

EventRecordRef CudaEvent::latest() const noexcept {
  const SpinLockGuard guard(lock_);
  return recorded_ ? EventRecordRef(*latest_) : EventRecordRef();
}

CudaEvent::Next CudaEvent::next() {
  Next next;
  bool timed = false;
  {
    const SpinLockGuard guard(lock_);
    next.turn = ++turns_;
    // acquire: pairs with the release of the last other owner. If an owner is about to release the
    // record, this takes another one, which costs little.
    if (latest_->users.load(std::memory_order_acquire) == 1) next.record = latest_.share();
    timed = latest_->timed;
  }
  if (!next.record) next.record = pool_->take(timed);
  return next;
}

void CudaEvent::set_latest(Next next) noexcept {
  // `next` then holds the earlier record, which is released without the lock.
  const SpinLockGuard guard(lock_);
  if (next.turn < latest_turn_) return;
  latest_turn_ = next.turn;
  std::swap(latest_, next.record);
  recorded_ = true;
}

}  // namespace leat::gpu::cuda
