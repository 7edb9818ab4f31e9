#include "leat/gpu/cuda/event_record.h"

namespace leat::gpu::cuda {

EventRecordRef::~EventRecordRef() {
  if (record_ == nullptr) return;
  // release: this owner's calls on the event come before the event is recorded anew; acquire: so do
  // those of all other owners.
  if (record_->users.fetch_sub(1, std::memory_order_acq_rel) == 1) record_->pool.put(*record_);
}

EventRecordPool::~EventRecordPool() {
  for (EventRecord* first : free_) {
    while (first != nullptr) {
      const std::unique_ptr<EventRecord> record(std::exchange(first, first->next));
      // CUDA allows destroying an event before it is complete. At the end of the process CUDA may
      // be gone already, and the event with it.
      static_cast<void>(context_.attempt([&] { return cudaEventDestroy(record->event); }));
    }
  }
}

EventRecordRef EventRecordPool::take(bool timed) {
  {
    const SpinLockGuard guard(lock_);
    EventRecord*& first = free_[timed ? 1 : 0];
    if (first != nullptr) return EventRecordRef(*std::exchange(first, first->next));
  }
  auto record = std::make_unique<EventRecord>(*this, timed);
  // Not cudaEventBlockingSync: it makes queries and waits slower.
  const unsigned flags = timed ? cudaEventDefault : cudaEventDisableTiming;
  context_.call("cudaEventCreateWithFlags",
                [&] { return cudaEventCreateWithFlags(&record->event, flags); });
  return EventRecordRef(*record.release());
}

void EventRecordPool::put(EventRecord& record) noexcept {
  const SpinLockGuard guard(lock_);
  EventRecord*& first = free_[record.timed ? 1 : 0];
  record.next = first;
  first = &record;
}

}  // namespace leat::gpu::cuda
