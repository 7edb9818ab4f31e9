// Records of CUDA events: one cudaEvent_t for each record that is still in use.
//
// Always true:
//  - an EventRecord is in the pool exactly while no EventRecordRef refers to it;
//  - new references come from its CudaEvent (event.h), under that event's lock, or are copies of
//    existing ones. So while that lock is held, a record with no reference but the CudaEvent's gets
//    no other.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "leat/csp/base/spin_lock.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/queue.h"
#include "leat/gpu/backend/done_signal.h"
#include "leat/gpu/backend/pool.h"
#include "leat/gpu/cuda/context.h"

namespace leat::gpu::cuda {

class EventRecordPool;

/// A cudaEvent_t, and the fibers and signals that wait for it.
struct EventRecord {
  EventRecord(EventRecordPool& owner, bool with_timing) : pool(owner), timed(with_timing) {}
  EventRecordPool& pool;
  const bool timed;
  cudaEvent_t event = nullptr;
  std::atomic<int> users{0};
  EventRecord* next = nullptr;  // in the pool, or in one of the poller's lists
  // Used by the poller, under its lock:
  WaitQueue waiters;
  DoneSignalList signals;
  TimePoint since;  // when `watched` was set
  bool watched = false;
  bool joined = false;  // a waiter came since the poller last took note of the waiters
};

/// A reference to an EventRecord, or empty.
class EventRecordRef {
 public:
  EventRecordRef() noexcept = default;
  explicit EventRecordRef(EventRecord& record) noexcept : record_(&record) {
    record.users.fetch_add(1, std::memory_order_relaxed);  // the caller knows that it is in use
  }
  EventRecordRef(EventRecordRef&& other) noexcept
      : record_(std::exchange(other.record_, nullptr)) {}
  EventRecordRef& operator=(EventRecordRef other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  ~EventRecordRef();

  [[nodiscard]] explicit operator bool() const noexcept { return record_ != nullptr; }
  [[nodiscard]] EventRecord& operator*() const noexcept { return *record_; }
  [[nodiscard]] EventRecord* operator->() const noexcept { return record_; }
  /// Another reference to the same record.
  [[nodiscard]] EventRecordRef share() const noexcept { return EventRecordRef(*record_); }
  /// Gives the reference away; adopt() makes an EventRecordRef of it again.
  [[nodiscard]] EventRecord* release() noexcept { return std::exchange(record_, nullptr); }
  /// Takes back a reference that release() gave away. Once for each release().
  [[nodiscard]] static EventRecordRef adopt(EventRecord& record) noexcept {
    EventRecordRef ref;
    ref.record_ = &record;
    return ref;
  }

 private:
  EventRecord* record_ = nullptr;
};

/// The unused records of one device. Thread-safe. After warm-up no event is created.
class EventRecordPool {
 public:
  explicit EventRecordPool(const Context& context) noexcept : context_(context) {}
  ~EventRecordPool();
  EventRecordPool(const EventRecordPool&) = delete;
  EventRecordPool& operator=(const EventRecordPool&) = delete;

  /// An unused record; the state of its cudaEvent_t is unspecified. Throws GpuError.
  [[nodiscard]] EventRecordRef take(bool timed) LEAT_EXCLUDES(lock_);

 private:
  friend class EventRecordRef;
  void put(EventRecord& record) noexcept LEAT_EXCLUDES(lock_);

  const Context& context_;
  SpinLock lock_;
  EventRecord* free_[2] LEAT_GUARDED_BY(lock_) = {nullptr, nullptr};  // untimed, timed
};

}  // namespace leat::gpu::cuda
