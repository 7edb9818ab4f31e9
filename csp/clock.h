// Time as the runtime sees it: real (steady) or virtual.
//
// Example
//   leat::VirtualClock clock;
//   leat::run([&] { leat::sleep_for(1h); }, {.clock = &clock});   // returns at once
//   assert(clock.now().time_since_epoch() == 1h);
//
// A VirtualClock advances only when every fiber of its scheduler is parked, and then to the
// earliest timer: CPU work takes no virtual time, and a run takes exactly the time that arithmetic
// says. That is what makes tests of time exact.
#pragma once

#include <chrono>
#include <cstdint>

#include "leat/csp/base/atomic.h"

namespace leat {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// When an operation gives up: now (a try), at a time point, or never. Trying, timed and blocking
/// operations are one code path that differs in this value alone.
class Deadline {
 public:
  /// Gives up at once: a try.
  static constexpr Deadline now() noexcept { return Deadline(TimePoint::min()); }
  /// Never gives up.
  static constexpr Deadline never() noexcept { return Deadline(TimePoint::max()); }
  /// Gives up at `at`, a time of the scheduler's clock.
  constexpr explicit Deadline(TimePoint at) noexcept : at_(at) {}

  /// Whether it is now().
  [[nodiscard]] constexpr bool is_now() const noexcept { return at_ == TimePoint::min(); }
  /// Whether it is never().
  [[nodiscard]] constexpr bool is_never() const noexcept { return at_ == TimePoint::max(); }
  /// The time: TimePoint::min() for now(), TimePoint::max() for never().
  [[nodiscard]] constexpr TimePoint at() const noexcept { return at_; }

  /// `start + length`, or never where the sum would overflow.
  static constexpr Deadline after(TimePoint start, Duration length) noexcept {
    if (length <= Duration::zero()) return Deadline(start);
    if (length > TimePoint::max() - start) return never();
    return Deadline(start + length);
  }

 private:
  TimePoint at_;
};

/// A source of time for a scheduler. Thread-safe. Must outlive every scheduler that uses it.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  /// The time on this clock.
  [[nodiscard]] virtual TimePoint now() const noexcept = 0;
  /// True if time stands still while any fiber can run.
  [[nodiscard]] virtual bool is_virtual() const noexcept = 0;
};

/// The machine's monotonic clock (CLOCK_MONOTONIC); the default of every scheduler.
class SteadyClock final : public Clock {
 public:
  /// CLOCK_MONOTONIC.
  [[nodiscard]] TimePoint now() const noexcept override;
  [[nodiscard]] bool is_virtual() const noexcept override { return false; }
  /// The one instance that schedulers use when they are given no clock. It holds no state.
  static SteadyClock& instance() noexcept;
};

/// Time that its scheduler advances when all of its fibers are parked. Starts at the clock's epoch.
/// Serves one scheduler at a time (a second one throws std::logic_error); now() may be called from
/// anywhere.
class VirtualClock final : public Clock {
 public:
  /// The virtual time; it begins at the epoch of TimePoint.
  [[nodiscard]] TimePoint now() const noexcept override {
    return TimePoint(Duration(now_.load(std::memory_order_acquire)));
  }
  [[nodiscard]] bool is_virtual() const noexcept override { return true; }
  /// Virtual time since the clock was made.
  [[nodiscard]] Duration elapsed() const noexcept { return now().time_since_epoch(); }

 private:
  friend class SchedulerCore;
  void attach();
  void detach() noexcept;
  void advance_to(TimePoint at) noexcept;

  Atomic<std::int64_t> now_{0};  // nanoseconds
  Atomic<bool> attached_{false};
};

/// The time of the calling fiber's scheduler; on a plain thread, the time of the SteadyClock.
/// Thread-safe.
[[nodiscard]] TimePoint now() noexcept;

}  // namespace leat
