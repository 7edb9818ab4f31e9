// CUDA events, one for each record that somebody still waits for.
//
// CUDA can be asked about an event's latest record only. Leat promises more: who awaits an event
// waits for the record that was the latest then, whatever is recorded afterwards; otherwise a fiber
// that is slower than the loop that records would wait for ever. So a CudaEvent has a cudaEvent_t
// for its latest record, and recording takes another one from the pool while anybody uses that.
//
// Always true:
//  - a Record is in the pool exactly while no RecordRef refers to it;
//  - a Record gets new users from its CudaEvent, under that one's lock, or from those it has; so
//    while that lock is held, a Record whose only user is the CudaEvent stays unused by others.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "leat/csp/spin_lock.h"
#include "leat/csp/wait_queue.h"
#include "leat/gpu/cuda/context.h"

namespace leat::gpu::cuda {

class EventPool;

/// A cudaEvent_t and who waits for it.
struct Record {
  Record(EventPool& owner, bool with_timing) : pool(owner), timed(with_timing) {}
  EventPool& pool;
  const bool timed;
  cudaEvent_t event = nullptr;
  std::atomic<int> users{0};
  Record* next = nullptr;  // in the pool, or in the poller's list
  // Of the poller, and under its lock:
  WaitQueue waiters;
  bool watched = false;
};

/// One user of a Record, or none.
class RecordRef {
 public:
  RecordRef() noexcept = default;
  explicit RecordRef(Record& record) noexcept : record_(&record) {
    record.users.fetch_add(1, std::memory_order_relaxed);  // the caller knows that it is not pooled
  }
  RecordRef(RecordRef&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  RecordRef& operator=(RecordRef other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  ~RecordRef();

  [[nodiscard]] explicit operator bool() const noexcept { return record_ != nullptr; }
  [[nodiscard]] Record& operator*() const noexcept { return *record_; }
  [[nodiscard]] Record* operator->() const noexcept { return record_; }
  /// Gives the reference away: whoever has the Record now makes a RecordRef of it again, by
  /// adopt().
  [[nodiscard]] Record* release() noexcept { return std::exchange(record_, nullptr); }
  [[nodiscard]] static RecordRef adopt(Record& record) noexcept {
    RecordRef ref;
    ref.record_ = &record;
    return ref;
  }

 private:
  Record* record_ = nullptr;
};

/// The records of one device. Thread-safe. After warm-up nothing is created.
class EventPool {
 public:
  explicit EventPool(const Context& context) noexcept : context_(context) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// One that nobody uses; what it was recorded for last is unspecified. Throws GpuError.
  [[nodiscard]] RecordRef take(bool timed) LEAT_EXCLUDES(lock_);

 private:
  friend class RecordRef;
  void put(Record& record) noexcept LEAT_EXCLUDES(lock_);

  const Context& context_;
  SpinLock lock_;
  Record* free_[2] LEAT_GUARDED_BY(lock_) = {nullptr, nullptr};  // untimed, timed
};

/// What an EventHandle points to. Thread-safe.
class CudaEvent {
 public:
  /// Throws GpuError.
  CudaEvent(EventPool& pool, bool timed) : pool_(pool), timed_(timed), latest_(pool.take(timed)) {}

  [[nodiscard]] bool timed() const noexcept { return timed_; }
  /// The latest record; none where it was never recorded.
  [[nodiscard]] RecordRef latest() const noexcept LEAT_EXCLUDES(lock_);
  /// Calls `record(cudaEvent_t)`, and makes that the latest record. Throws what it throws,
  /// GpuError.
  template <class F>
  void record(F&& record) {
    const std::lock_guard guard(recording_);
    RecordRef next = this->next();
    record(next->event);
    set_latest(std::move(next));
  }

 private:
  [[nodiscard]] RecordRef next() LEAT_EXCLUDES(lock_);
  void set_latest(RecordRef record) noexcept LEAT_EXCLUDES(lock_);

  EventPool& pool_;
  const bool timed_;
  // Of two threads that record at once, the one that CUDA has heard later has the latest record:
  // else the other's would be forgotten for one that comes before it in the stream.
  std::mutex recording_;
  mutable SpinLock lock_;
  RecordRef latest_ LEAT_GUARDED_BY(lock_);  // never empty
  bool recorded_ LEAT_GUARDED_BY(lock_) = false;
};

}  // namespace leat::gpu::cuda
