// When to look again whether a device is done: who asks too late adds latency to every step, who
// asks all the time burns a core.
//
// A loop's waits resemble each other. So the lengths of the latest ones are kept, and a wait that
// comes near one of them is watched without pause, from a little before it to a little after. Apart
// from that it is looked at in distances that grow with its length: it becomes longer by a quarter
// at most (a sixteenth where there is nothing to compare it with) or by kShortestSleep, and by no
// more than kLongestSleep.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "leat/csp/clock.h"

namespace leat::gpu {

/// Of one device's waits. Not thread-safe.
class WaitPredictor {
 public:
  /// A wait has ended after `length`.
  void ended(Duration length) noexcept {
    lengths_[next_] = std::max(length, Duration(1));
    next_ = (next_ + 1) % lengths_.size();
  }

  /// How long to sleep before looking again at what has been waited for `waited` so far; zero: look
  /// again at once.
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
    // A sleep that is shorter than this ends late.
    if (until_near < kShortestSleep) return Duration::zero();
    return std::min(until_near,
                    std::clamp(waited / (known ? 4 : 16), kShortestSleep, kLongestSleep));
  }

  /// For how long every wait is watched without pause at first.
  static constexpr Duration kSpin = std::chrono::microseconds(20);
  /// What sleep() gives is zero, or between these.
  static constexpr Duration kShortestSleep = std::chrono::microseconds(20);
  static constexpr Duration kLongestSleep = std::chrono::milliseconds(1);

 private:
  // What a timer is late by, and by how much a loop's waits differ.
  [[nodiscard]] static constexpr Duration margin(Duration length) noexcept {
    return std::min(length / 64, Duration(std::chrono::microseconds(500))) +
           Duration(std::chrono::microseconds(30));
  }

  std::array<Duration, 8> lengths_{};  // zero: none yet
  std::size_t next_ = 0;
};

}  // namespace leat::gpu
