#include "leat/gpu/cuda/event_pool.h"

namespace leat::gpu::cuda {

RecordRef::~RecordRef() {
  if (record_ == nullptr) return;
  // release: this user's calls on the event come before it is recorded for somebody else; acquire:
  // so do all other users'.
  if (record_->users.fetch_sub(1, std::memory_order_acq_rel) == 1) record_->pool.put(*record_);
}

EventPool::~EventPool() {
  for (Record* first : free_) {
    while (first != nullptr) {
      const std::unique_ptr<Record> record(std::exchange(first, first->next));
      // An event may be destroyed before it is complete; CUDA keeps what it needs. At the end of
      // the process CUDA may be gone already, and the event with it.
      static_cast<void>(context_.attempt([&] { return cudaEventDestroy(record->event); }));
    }
  }
}

RecordRef EventPool::take(bool timed) {
  {
    const SpinLockGuard guard(lock_);
    Record*& first = free_[timed ? 1 : 0];
    if (first != nullptr) return RecordRef(*std::exchange(first, first->next));
  }
  auto record = std::make_unique<Record>(*this, timed);
  // Never cudaEventBlockingSync: it makes queries and waits slower.
  const unsigned flags = timed ? cudaEventDefault : cudaEventDisableTiming;
  context_.call("cudaEventCreateWithFlags",
                [&] { return cudaEventCreateWithFlags(&record->event, flags); });
  return RecordRef(*record.release());
}

void EventPool::put(Record& record) noexcept {
  const SpinLockGuard guard(lock_);
  Record*& first = free_[record.timed ? 1 : 0];
  record.next = first;
  first = &record;
}

RecordRef CudaEvent::latest() const noexcept {
  const SpinLockGuard guard(lock_);
  return recorded_ ? RecordRef(*latest_) : RecordRef();
}

CudaEvent::Next CudaEvent::next() {
  Next next;
  bool timed = false;
  {
    const SpinLockGuard guard(lock_);
    next.turn = ++turns_;
    // acquire: pairs with the release of the user that left last. Where a user is about to leave,
    // another record is taken, which is only a little more than needed.
    if (latest_->users.load(std::memory_order_acquire) == 1) next.record = latest_.share();
    timed = latest_->timed;
  }
  if (!next.record) next.record = pool_->take(timed);
  return next;
}

void CudaEvent::set_latest(Next next) noexcept {
  // The earlier record is let go without the lock: it may be the last reference.
  const SpinLockGuard guard(lock_);
  if (next.turn < latest_turn_) return;
  latest_turn_ = next.turn;
  std::swap(latest_, next.record);
  recorded_ = true;
}

}  // namespace leat::gpu::cuda
