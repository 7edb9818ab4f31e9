// How long a schedule takes, and what it waits for, without running it.
//
// Time is in whole ticks, of whatever length. F, I and W of a stage take what the model says, B
// takes I and W together, and nothing else takes time. A value arrives a link delay after its Send
// is done; with capacity 0, both sides are held that long. check.h has the other rules. An executor
// under a virtual clock takes exactly as long.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "leat/pipeline/check.h"
#include "leat/pipeline/schedule.h"

namespace leat::pipeline {

/// What a stage takes.
struct StageCost {
  std::int64_t forward = 1;           ///< ticks of F
  std::int64_t backward_input = 1;    ///< of I
  std::int64_t backward_weight = 1;   ///< of W
  std::int64_t activation_bytes = 1;  ///< of one microbatch
};
/// The costs that a simulation assumes.
struct CostModel {
  std::vector<StageCost> stages = {StageCost{}};  ///< one for each stage, or one for all
  std::int64_t link = 0;                          ///< ticks that a value is under way
  std::optional<int> capacity = {};               ///< places of a channel; none: as many as wanted
  /// The cost of a stage.
  [[nodiscard]] const StageCost& of(std::int32_t stage) const {
    return stages.size() == 1 ? stages.front() : stages[static_cast<std::size_t>(stage)];
  }
  /// Throws std::invalid_argument for a negative value, for costs of neither 1 stage nor all of
  /// `schedule`'s, and for times with a sum that does not fit in 62 bits.
  void check(const Schedule& schedule) const;
};

/// One action in time.
struct Span {
  std::size_t column = 0;  ///< its cell
  Action action;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
/// A rank's time and memory. busy + fill + wait + drain = makespan.
struct RankTimes {
  std::int64_t busy = 0;   ///< it computes
  std::int64_t fill = 0;   ///< idle before it first computes
  std::int64_t drain = 0;  ///< idle after it last computes
  std::int64_t wait = 0;   ///< idle between
  std::int64_t peak_activations = 0;
  std::int64_t peak_bytes = 0;  ///< of activations
};
/// A part of the critical path.
struct CriticalStep {
  std::size_t row = 0;
  Span span;  ///< an action that computes, or the transfer that is waited for
};

/// What a simulation has found.
struct Simulation {
  std::int64_t makespan = 0;
  double bubble = 0;  ///< 1 - busy / (R makespan); 0 if the makespan is 0
  std::vector<RankTimes> ranks;
  std::vector<std::vector<Span>> spans;     ///< of each rank: every action, in order
  std::vector<CriticalStep> critical_path;  ///< from time 0 to the makespan, without gaps
  std::optional<Stop> stop;  ///< where it stopped; the figures are then of what has run
};

/// Simulates a schedule in which check() finds no fault except perhaps a stop. Lowers an order
/// first. Throws std::invalid_argument, as CostModel::check().
[[nodiscard]] Simulation simulate(const Schedule& schedule, const CostModel& model = {});
/// The makespan alone, which is quicker. None: it stops.
[[nodiscard]] std::optional<std::int64_t> makespan(const Schedule& schedule,
                                                   const CostModel& model = {});

}  // namespace leat::pipeline
