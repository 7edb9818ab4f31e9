// An event of the host device.
#pragma once

#include <cstdint>
#include <utility>

#include "leat/csp/wait/spin_lock.h"
#include "leat/gpu/host/completion.h"

namespace leat::gpu::host {

/// An event: its latest record, if there was one. Records made by several threads at once count in
/// the order in which they began: what the later one covers includes what the earlier one does.
class HostEvent {
 public:
  /// By who has taken it from the pool, before anybody else knows it.
  void set_timed(bool timed) noexcept { timed_ = timed; }
  [[nodiscard]] bool timed() const noexcept { return timed_; }
  [[nodiscard]] CompletionRef latest() const noexcept {
    const SpinLockGuard guard(lock_);
    return latest_;
  }
  /// A record begins; returns its turn.
  [[nodiscard]] std::uint64_t begin_record() noexcept {
    const SpinLockGuard guard(lock_);
    return ++turns_;
  }
  /// The record of that turn has been enqueued.
  void end_record(std::uint64_t turn, CompletionRef completion) noexcept {
    {
      const SpinLockGuard guard(lock_);
      if (turn < latest_turn_) return;
      latest_turn_ = turn;
      std::swap(latest_, completion);
    }
    // The earlier record is let go without the lock.
  }
  /// For the pool.
  void recycle() noexcept {
    CompletionRef last;  // goes after the lock
    const SpinLockGuard guard(lock_);
    std::swap(latest_, last);
    turns_ = latest_turn_ = 0;
  }

 private:
  bool timed_ = false;
  mutable SpinLock lock_;
  std::uint64_t turns_ LEAT_GUARDED_BY(lock_) = 0;
  std::uint64_t latest_turn_ LEAT_GUARDED_BY(lock_) = 0;
  CompletionRef latest_ LEAT_GUARDED_BY(lock_);
};

}  // namespace leat::gpu::host
