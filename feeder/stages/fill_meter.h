// What filling a batch costs its thread, and whether the data is cold: the disk has to fetch it.
#pragma once

#include <cstdint>

#include "leat/csp/clock.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/stats/batch_record.h"

namespace leat::feeder {

/// Measures the fills of one reader.
///
/// The kernel counts for each thread the major faults, and the blocks that the disk is to fetch
/// because of the thread's reads, faults and announcements (getrusage). A batch without either is
/// hot. mincore and cachestat are of no use: for a file that the caller may not write, they say
/// that all of it is in memory.
///
/// The data is cold at first. A hot batch makes it hot. While the data is hot, batches are not
/// measured, which costs calls. If a batch then takes as long as a disk would, the next batch is
/// measured; if that one is not hot, the data is cold again. Data that soon turns cold again needs
/// twice as many hot batches in a row before it counts as hot. So most batches are announced if
/// only some of the data is in memory, or if it is mapped from a file system for which the kernel
/// counts no blocks (FUSE).
///
/// Data of Blocking::kNever is hot, and not measured: its reads may park, and change threads. In
/// virtual time all other data is cold, and nothing is measured.
class FillMeter {
 public:
  FillMeter(Blocking blocking, bool is_virtual) noexcept
      : counts_(blocking != Blocking::kNever && !is_virtual),
        is_virtual_(is_virtual),
        is_cold_(blocking != Blocking::kNever) {}

  [[nodiscard]] bool is_cold() const noexcept { return is_cold_; }
  /// The calling thread begins to fill a batch. The thread may change only between pause() and
  /// resume().
  void begin() noexcept;
  void pause() noexcept { add(1); }
  void resume() noexcept { add(-1); }
  /// The batch is filled. Decides whether the next one is cold.
  ReadCost end() noexcept;

 private:
  [[nodiscard]] bool is_counting() const noexcept { return counts_ && (is_cold_ || is_in_doubt_); }
  void add(int sign) noexcept;
  void decide(bool is_hot) noexcept;

  const bool counts_;
  const bool is_virtual_;
  bool is_cold_;
  bool is_in_doubt_ = false;  // hot, and the latest batch has waited
  ReadCost cost_;             // of this batch, so far
  Duration time_ = Duration::zero();
  int hot_in_a_row_ = 0;
  int needed_ = 1;
};

}  // namespace leat::feeder
