// An event of the CUDA backend.
//
// CUDA answers questions about an event's latest record only. Leat promises more: a fiber that
// awaits an event waits for the record that was the latest when it began, whatever is recorded
// later. Otherwise a fiber slower than the loop that records would wait for ever. So a CudaEvent
// holds an EventRecord, and recording takes another one from the pool while the old one is in use.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "leat/csp/base/spin_lock.h"
#include "leat/gpu/cuda/event_record.h"

namespace leat::gpu::cuda {

/// The object behind an EventHandle; reused by a Pool. Thread-safe.
class CudaEvent {
 public:
  /// Called by the thread that took the event from its pool, before it passes the handle on. Throws
  /// GpuError.
  void prepare(EventRecordPool& pool, bool timed) {
    pool_ = &pool;
    latest_ = pool.take(timed);
  }
  /// Called by the pool.
  void recycle() noexcept {
    latest_ = {};
    recorded_ = false;
  }

  /// Returns the latest record; empty if the event was never recorded.
  [[nodiscard]] EventRecordRef latest() const noexcept LEAT_EXCLUDES(lock_);
  /// Calls `record(cudaEvent_t)` and makes that the latest record. Throws what `record` throws, and
  /// GpuError.
  ///
  /// If several threads record at once, the record that began last is the latest: it covers all
  /// work enqueued before the others began.
  template <class F>
  void record(F&& record) {
    Next next = this->next();
    record(next.record->event);
    set_latest(std::move(next));
  }

 private:
  struct Next {
    EventRecordRef record;
    std::uint64_t turn = 0;
  };
  [[nodiscard]] Next next() LEAT_EXCLUDES(lock_);
  void set_latest(Next next) noexcept LEAT_EXCLUDES(lock_);

  EventRecordPool* pool_ = nullptr;
  mutable SpinLock lock_;
  EventRecordRef latest_;  // changed under lock_ once the handle is passed on; not empty then
  bool recorded_ = false;  // likewise
  std::uint64_t turns_ LEAT_GUARDED_BY(lock_) = 0;        // number of records that have begun
  std::uint64_t latest_turn_ LEAT_GUARDED_BY(lock_) = 0;  // the turn of latest_, if recorded_
};

}  // namespace leat::gpu::cuda
