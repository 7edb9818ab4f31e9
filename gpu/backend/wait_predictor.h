// When to query the device again: late queries delay every step, constant queries burn a core.
//
// The waits of a loop resemble each other. So the lengths of the latest waits are kept, and a wait
// that comes near one of them is polled without pause, from a little before that length to a little
// after. Otherwise the pauses grow with the wait: each makes it longer by at most a quarter (a
// sixteenth if no length is known) or by kShortestSleep, and never by more than kLongestSleep.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "leat/csp/clock.h"

namespace leat::gpu {

/// Predicts the waits of one device. Not thread-safe.
class WaitPredictor {
 public:
  /// Records that a wait has ended after `length`.
  void ended(Duration length) noexcept {
    lengths_[next_] = std::max(length, Duration(1));
    next_ = (next_ + 1) % lengths_.size();
  }

  /// How long to sleep before the next query of an event that has been waited for since `waited`;
  /// zero: query again at once.
  [[nodiscard]] Duration sleep(Duration waited) const noexcept {
    if (waited < kSpin) return Duration::zero();
    bool known = false;
    Duration until_near = Duration::max();
    for (const Duration length : lengths_) {
      if (length == Duration::zero()) continue;
      known = true;
      const Duration begin = length - margin(length);
      if (waited <= length + margin(length)) until_near = std::min(until_near, begin - waited);
    }
    // A shorter sleep would end late.
    if (until_near < kShortestSleep) return Duration::zero();
    return std::min(until_near,
                    std::clamp(waited / (known ? 4 : 16), kShortestSleep, kLongestSleep));
  }

  /// For how long every wait is polled without pause at first.
  static constexpr Duration kSpin = std::chrono::microseconds(20);
  /// sleep() returns zero, or a time between these two.
  static constexpr Duration kShortestSleep = std::chrono::microseconds(20);
  static constexpr Duration kLongestSleep = std::chrono::milliseconds(1);

 private:
  // How late a timer may be, and how much the waits of a loop differ.
  [[nodiscard]] static constexpr Duration margin(Duration length) noexcept {
    return std::min(length / 64, Duration(std::chrono::microseconds(500))) +
           Duration(std::chrono::microseconds(30));
  }

  std::array<Duration, 8> lengths_{};  // zero: none yet
  std::size_t next_ = 0;
};

}  // namespace leat::gpu
