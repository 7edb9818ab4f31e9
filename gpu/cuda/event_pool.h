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
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/wait/queue.h"
#include "leat/csp/wait/spin_lock.h"
#include "leat/gpu/backend/done_signal.h"
#include "leat/gpu/backend/pool.h"
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
  DoneSignalList signals;
  TimePoint since;  // it is watched
  bool watched = false;
  bool joined = false;  // by somebody since the poller last looked who waits
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
  /// Another user.
  [[nodiscard]] RecordRef share() const noexcept { return RecordRef(*record_); }
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

/// What an EventHandle stands for; used again, as Records are. Thread-safe.
class CudaEvent {
 public:
  /// By who has taken it from its pool, before anybody else knows it. Throws GpuError.
  void prepare(EventPool& pool, bool timed) {
    pool_ = &pool;
    latest_ = pool.take(timed);
  }
  /// For the pool.
  void recycle() noexcept {
    latest_ = {};
    recorded_ = false;
  }

  /// The latest record; none where it was never recorded.
  [[nodiscard]] RecordRef latest() const noexcept LEAT_EXCLUDES(lock_);
  /// Calls `record(cudaEvent_t)`, and makes that the latest record. Throws what it throws,
  /// GpuError.
  ///
  /// Of several threads that record at once, the one that began last counts: its record covers all
  /// that was enqueued before the others began.
  template <class F>
  void record(F&& record) {
    Next next = this->next();
    record(next.record->event);
    set_latest(std::move(next));
  }

 private:
  struct Next {
    RecordRef record;
    std::uint64_t turn = 0;
  };
  [[nodiscard]] Next next() LEAT_EXCLUDES(lock_);
  void set_latest(Next next) noexcept LEAT_EXCLUDES(lock_);

  EventPool* pool_ = nullptr;
  mutable SpinLock lock_;
  RecordRef latest_;       // changed under lock_ once others know it; then never empty
  bool recorded_ = false;  // likewise
  std::uint64_t turns_ LEAT_GUARDED_BY(lock_) = 0;        // of records that have begun
  std::uint64_t latest_turn_ LEAT_GUARDED_BY(lock_) = 0;  // that of latest_, if it was recorded
};

}  // namespace leat::gpu::cuda
