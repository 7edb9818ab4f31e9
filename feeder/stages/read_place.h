// Where a reader reads its next batch: on its own fiber, or on a thread that may block.
#pragma once

#include <algorithm>
#include <chrono>

#include "leat/csp/clock.h"
#include "leat/feeder/dataset.h"

namespace leat::feeder {

/// Decides for one reader, by the time that its last batches took.
///
/// Place  | cost                                                        | good for
/// thread | a change of threads: some 10 us, far more if the CPU sleeps | kQuick or longer
/// fiber  | blocks the fiber's worker while it reads                    | quicker batches
///
/// Batches are read on a thread until they are quick. Each batch that is slow on the fiber doubles
/// the number of quick batches in a row that are needed before the next try. So files that are only
/// sometimes in memory block few workers.
class ReadPlace {
 public:
  static constexpr Duration kQuick = std::chrono::milliseconds(1);

  explicit ReadPlace(Blocking blocking) noexcept : blocking_(blocking) {}

  /// Returns whether the next batch is to be read on a thread.
  [[nodiscard]] bool is_thread() const noexcept {
    return blocking_ == Blocking::kOften ||
           (blocking_ == Blocking::kSeldom && quick_in_a_row_ < needed_);
  }
  /// Notes the time that the batch took, in the place that is_thread() named.
  void took(Duration time) noexcept {
    if (time < kQuick) {
      quick_in_a_row_ = std::min(quick_in_a_row_ + 1, kMostNeeded);
      return;
    }
    if (!is_thread()) needed_ = std::min(needed_ * 2, kMostNeeded);
    quick_in_a_row_ = 0;
  }

 private:
  static constexpr int kMostNeeded = 64;

  Blocking blocking_;
  int quick_in_a_row_ = 0;
  int needed_ = 1;
};

}  // namespace leat::feeder
