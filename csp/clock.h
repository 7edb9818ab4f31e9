// Time as the runtime sees it: real or virtual.
//
// Example
//   leat::VirtualClock clock;
//   leat::run([&] { leat::sleep_for(1h); }, {.clock = &clock});   // returns at once
//   assert(clock.now().time_since_epoch() == 1h);
//
// A VirtualClock stands still while any fiber of its scheduler can run. When all are parked, it
// advances to the earliest timer. So computing takes no virtual time, and tests of time are exact.
//
// Thread-safe. A clock must outlive every scheduler that uses it.
//
// Errors: std::logic_error if two schedulers use one VirtualClock at the same time.
#pragma once

#include <chrono>
#include <cstdint>
#include <type_traits>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/required.h"

namespace leat {

/// A length of time, in nanoseconds.
using Duration = std::chrono::nanoseconds;

/// leat::now() as a clock of std::chrono (the named requirement Clock): the caller's clock, real or
/// virtual. Deadlines are times of this clock: write `leat::from_now(d)`. A time of
/// std::chrono::steady_clock does not compile as a deadline, because a VirtualClock starts at 0.
/// Convert it: `leat::from_now(deadline - std::chrono::steady_clock::now())`.
struct RuntimeClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<RuntimeClock, duration>;
  /// False: callers on different schedulers may have different clocks, and a VirtualClock stops.
  static constexpr bool is_steady = false;
  /// leat::now().
  [[nodiscard]] static time_point now() noexcept;
};

/// A time of a Clock. On a VirtualClock, the time since the clock was made.
using TimePoint = RuntimeClock::time_point;

/// When an operation gives up: now (a try), at a time point, or never. Trying, timed and blocking
/// operations differ in this value only.
class Deadline {
 public:
  /// Gives up at once: a try.
  static constexpr Deadline now() noexcept { return {TimePoint::min(), kAsItIs}; }
  /// As now(), for a select that may wait and first tries its cases. The caller's fiber may give
  /// way to others.
  static constexpr Deadline now_of_wait() noexcept {
    return {TimePoint::min() + Duration(1), kAsItIs};
  }
  /// Never gives up.
  static constexpr Deadline never() noexcept { return {TimePoint::max(), kAsItIs}; }
  /// Gives up at `at`, a time of the caller's clock (leat::now()). TimePoint::min() and the
  /// nanosecond after it are now() and now_of_wait(). Any other time more than 146 years before the
  /// clock's epoch means never: it comes from a sum that has overflowed, such as
  /// `now() + Duration::max()`.
  constexpr explicit Deadline(TimePoint at) noexcept : at_(at) {
    std::int64_t time = at.time_since_epoch().count();
    // Hides the caller's sum from the compiler, which assumes that no sum overflows and would
    // remove the check below.
    if (!std::is_constant_evaluated()) asm("" : "+r"(time));
    if (time > Duration::min().count() + 1 && time < Duration::min().count() / 2) {
      at_ = TimePoint::max();
    }
  }

  /// Returns whether the deadline is now(), or now_of_wait().
  [[nodiscard]] constexpr bool is_now() const noexcept { return at_ <= now_of_wait().at_; }
  /// Returns whether the operation is a try: the deadline is now().
  [[nodiscard]] constexpr bool is_try() const noexcept { return at_ == TimePoint::min(); }
  /// Returns whether the deadline is never().
  [[nodiscard]] constexpr bool is_never() const noexcept { return at_ == TimePoint::max(); }
  /// Returns the time: TimePoint::min() for now(), TimePoint::max() for never().
  [[nodiscard]] constexpr TimePoint at() const noexcept { return at_; }

  /// Gives up at `start + length`; never, if the sum would overflow; at `start`, if `length` is
  /// not positive.
  static constexpr Deadline after(TimePoint start, Duration length) noexcept {
    if (length <= Duration::zero()) return Deadline(start);
    if (length > TimePoint::max() - start) return never();
    return {start + length, kAsItIs};
  }

 private:
  enum Unchecked : bool { kAsItIs };
  constexpr Deadline(TimePoint at, Unchecked) noexcept : at_(at) {}

  TimePoint at_;
};

/// A source of time for a scheduler. Thread-safe.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  /// Returns the time on this clock.
  [[nodiscard]] virtual TimePoint now() const noexcept = 0;
  /// Returns whether time stands still while any fiber can run.
  [[nodiscard]] virtual bool is_virtual() const noexcept = 0;
};

/// The machine's monotonic clock (CLOCK_MONOTONIC). The default of every scheduler.
class SteadyClock final : public Clock {
 public:
  /// Returns the time of CLOCK_MONOTONIC.
  [[nodiscard]] TimePoint now() const noexcept override;
  /// False.
  [[nodiscard]] bool is_virtual() const noexcept override { return false; }
  /// The instance that schedulers use by default. Has no state, and is never destroyed.
  static SteadyClock& instance() noexcept;
  /// Converts `at`, a time of this clock, to a time of std::chrono::steady_clock.
  [[nodiscard]] static constexpr std::chrono::steady_clock::time_point to_std(
      TimePoint at) noexcept {
    return std::chrono::steady_clock::time_point(at.time_since_epoch());
  }
};

/// A clock that its scheduler advances when all fibers are parked. Begins at the epoch of
/// TimePoint. Serves one scheduler at a time: a second one throws std::logic_error. Any fiber or
/// thread may call now().
class VirtualClock final : public Clock {
 public:
  /// Returns the virtual time.
  [[nodiscard]] TimePoint now() const noexcept override {
    return TimePoint(Duration(now_.load(std::memory_order_acquire)));
  }
  /// True.
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

/// Returns the time on the clock of the calling fiber's scheduler; on a plain thread, the time of
/// the SteadyClock. Thread-safe.
[[nodiscard]] TimePoint now() noexcept;

/// Returns now() + length, for the functions that wait until a deadline (recv_until, next_until,
/// ...); now(), if `length` is not positive; never (the end of the clock), if the sum would
/// overflow, as for Duration::max(). Durations are nanoseconds, up to 292 years: the max() of a
/// coarser unit does not fit. Thread-safe.
[[nodiscard]] inline TimePoint from_now(Duration length) noexcept {
  return Deadline::after(now(), length).at();
}

inline TimePoint RuntimeClock::now() noexcept { return leat::now(); }

}  // namespace leat
