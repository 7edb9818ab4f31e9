// What an exchange has measured on its rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/clock.h"

namespace leat::comm {

/// Adds up how long pieces are under way (busy), how long the trainer waits in await() for
/// communication (exposed: not while a gradient of its own is still being computed), and the rest
/// of ExchangeStats. Times are of one clock. Thread-safe: the exchange's fiber and the trainer tell
/// it.
class Meter {
 public:
  explicit Meter(std::size_t gradients) : waited_(gradients) {}

  void begin_step(TimePoint now) noexcept {
    const SpinLockGuard guard(lock_);
    if (!began_.has_value()) began_ = now;
  }
  void end_backward() noexcept {
    const SpinLockGuard guard(lock_);
    ++stats_.steps;
  }
  void set_busy(bool busy, TimePoint now) noexcept {
    const SpinLockGuard guard(lock_);
    add_until(now);
    busy_ = busy;
  }
  void add_piece(std::uint64_t bytes) noexcept {
    const SpinLockGuard guard(lock_);
    ++stats_.pieces;
    stats_.bytes += bytes;
  }
  void begin_wait(TimePoint now) noexcept {
    const SpinLockGuard guard(lock_);
    add_until(now);
    awaiting_ = true;
  }
  /// The wait for gradient `index` that began at `began`.
  void end_wait(std::size_t index, TimePoint began, TimePoint now) noexcept {
    const SpinLockGuard guard(lock_);
    add_until(now);
    awaiting_ = false;
    waited_[index] += now - began;
  }
  /// A gradient of this rank was given, and may still be computed (1), or its device has it (-1).
  void add_computed(int change, TimePoint now) noexcept {
    const SpinLockGuard guard(lock_);
    add_until(now);
    computed_ += change;
  }
  /// All so far, of these gradients.
  [[nodiscard]] ExchangeStats stats(TimePoint now, std::span<const Gradient> gradients) {
    ExchangeStats stats;
    std::size_t longest = 0;
    {
      const SpinLockGuard guard(lock_);
      add_until(now);
      stats = stats_;
      if (began_.has_value()) stats.time = now - *began_;
      longest = static_cast<std::size_t>(std::ranges::max_element(waited_) - waited_.begin());
      if (longest < waited_.size()) stats.longest_wait = waited_[longest];
    }
    if (stats.longest_wait > Duration::zero()) stats.longest_awaited = gradients[longest].name;
    return stats;
  }

 private:
  // Two callers may have read the clock in another order than they come here.
  void add_until(TimePoint now) noexcept LEAT_REQUIRES(lock_) {
    const Duration passed = now > since_ ? now - since_ : Duration::zero();
    since_ += passed;
    const bool exposed = awaiting_ && computed_ == 0;
    if (busy_) stats_.busy += passed;
    if (exposed) stats_.exposed += passed;
    if (busy_ && !exposed) stats_.hidden += passed;
  }

  SpinLock lock_;
  TimePoint since_ LEAT_GUARDED_BY(lock_);
  ExchangeStats stats_ LEAT_GUARDED_BY(lock_);
  std::optional<TimePoint> began_ LEAT_GUARDED_BY(lock_);
  std::vector<Duration> waited_ LEAT_GUARDED_BY(lock_);  // by gradient
  bool busy_ LEAT_GUARDED_BY(lock_) = false;
  bool awaiting_ LEAT_GUARDED_BY(lock_) = false;
  int computed_ LEAT_GUARDED_BY(lock_) = 0;  // gradients
};

}  // namespace leat::comm
