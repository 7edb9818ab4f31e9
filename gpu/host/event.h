// An event of the host device.
#pragma once

#include <cstdint>
#include <utility>

#include "leat/csp/base/spin_lock.h"
#include "leat/gpu/host/event_record.h"

namespace leat::gpu::host {

/// Holds the event's latest record, if it has one. If several threads record at once, the record
/// that began last is the latest: it covers all work that the others cover. Thread-safe.
class HostEvent {
 public:
  /// Called by the thread that took the event from the pool, before it passes the handle on.
  void set_timed(bool timed) noexcept { timed_ = timed; }
  /// Returns whether elapsed() may use the event.
  [[nodiscard]] bool timed() const noexcept { return timed_; }
  /// Returns the latest record; empty if the event was never recorded.
  [[nodiscard]] EventRecordRef latest() const noexcept {
    const SpinLockGuard guard(lock_);
    return latest_;
  }
  /// Begins a record and returns its turn.
  [[nodiscard]] std::uint64_t begin_record() noexcept {
    const SpinLockGuard guard(lock_);
    return ++turns_;
  }
  /// Makes `record`, which was enqueued in that turn, the latest record if no later turn has ended.
  void end_record(std::uint64_t turn, EventRecordRef record) noexcept {
    {
      const SpinLockGuard guard(lock_);
      if (turn < latest_turn_) return;
      latest_turn_ = turn;
      std::swap(latest_, record);
    }
    // The earlier record is released without the lock.
  }
  /// Called by the pool.
  void recycle() noexcept {
    EventRecordRef last;  // released after the lock
    const SpinLockGuard guard(lock_);
    std::swap(latest_, last);
    turns_ = latest_turn_ = 0;
  }

 private:
  bool timed_ = false;
  mutable SpinLock lock_;
  std::uint64_t turns_ LEAT_GUARDED_BY(lock_) = 0;
  std::uint64_t latest_turn_ LEAT_GUARDED_BY(lock_) = 0;
  EventRecordRef latest_ LEAT_GUARDED_BY(lock_);
};

}  // namespace leat::gpu::host
