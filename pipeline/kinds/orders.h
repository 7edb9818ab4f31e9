// The rows of the kinds. A shape has been checked: kinds.cpp does that.
#pragma once

#include <cstdint>

#include "leat/pipeline/kinds.h"
#include "leat/pipeline/schedule.h"

namespace leat::pipeline::orders {

/// All forwards of one stage after the other, then all backwards of the last stage first. A stage's
/// backwards go from the last microbatch down (`last_first`) or from the first up.
[[nodiscard]] Row breadth_first(const ScheduleShape& shape, std::int32_t rank, bool last_first);

/// What distinguishes the kinds that alternate forwards and backwards.
struct Alternation {
  std::int32_t group = 1;        ///< microbatches that pass a stage before the rank's next stage
  std::int32_t warmup = 0;       ///< forwards before the first pair of a forward and a backward
  bool splits = false;           ///< I and W instead of B
  std::int32_t weights_lag = 0;  ///< if it splits: I's before each I is followed by a W
};
/// Some forwards, then pairs of a forward and a backward, then backwards alone.
[[nodiscard]] Row alternating(const ScheduleShape& shape, std::int32_t rank,
                              const Alternation& alternation);

/// ZB-V.
[[nodiscard]] Row zbv(const ScheduleShape& shape, std::int32_t rank);
/// DualPipeV, with its overlapped pairs.
[[nodiscard]] Row dualpipe_v(const ScheduleShape& shape, std::int32_t rank);

}  // namespace leat::pipeline::orders
