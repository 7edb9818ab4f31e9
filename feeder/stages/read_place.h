// Where a reader reads its next batch: on its own fiber, or on a thread that may block.
#pragma once

#include <algorithm>
#include <chrono>

#include "leat/csp/clock.h"
#include "leat/feeder/dataset.h"

namespace leat::feeder {

/// Decides for one reader, by how long its last batches took. A change of threads costs some ten
/// microseconds on a CPU that is awake, and many times that on one that is not: beside a batch of
/// kQuick it hardly counts, beside a quicker one it is what the batch costs. A fiber, on the other
/// hand, must not keep its worker from the others for longer than that. So a batch is read on a
/// thread until whole batches turn out to be quick; each disappointment on the fiber doubles the
/// number that is asked for, so that pages which are in memory now and then keep few workers
/// waiting.
class ReadPlace {
 public:
  static constexpr Duration kQuick = std::chrono::milliseconds(1);

  explicit ReadPlace(Blocking blocking) noexcept : blocking_(blocking) {}

  /// Whether the next batch is to be read on a thread.
  [[nodiscard]] bool is_thread() const noexcept {
    return blocking_ == Blocking::kOften ||
           (blocking_ == Blocking::kSeldom && quick_in_a_row_ < needed_);
  }
  /// What the batch took, where is_thread() said.
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
