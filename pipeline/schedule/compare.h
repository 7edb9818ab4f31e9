// The kinds beside each other, for one number of ranks and microbatches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "leat/pipeline/check.h"
#include "leat/pipeline/kinds.h"
#include "leat/pipeline/schedule/table.h"
#include "leat/pipeline/simulate.h"

namespace schedule_program {

/// A kind, and what it takes.
struct Compared {
  leat::pipeline::Kind kind{};
  std::int32_t stages_per_rank = 0;      ///< 0: the kind has no such shape
  std::optional<std::int64_t> makespan;  ///< with the model's times for each stage; none: it stops
  double bubble = 0;
  std::int64_t peak_activations = 0;  ///< of the rank with the most
  std::int64_t peak_bytes = 0;        ///< of the rank with the most
  leat::pipeline::Capacities capacities;
  /// The makespan if the whole model is the same for all kinds: where a rank has v stages, each
  /// takes 1/v of the model's times, and the link as long as ever. As the makespan if the model has
  /// its own times for each stage.
  std::optional<double> time;
  std::string why_not;  ///< why there are no figures, or what does not fit
};

/// All kinds in their order. `shape`: its stages_per_rank is for kinds that have a choice. Marks
/// what does not fit `limit` (as of check(); empty: all fits) or stops in why_not. Throws
/// std::invalid_argument for a model or a limit that is out of range.
[[nodiscard]] std::vector<Compared> compare(const leat::pipeline::ScheduleShape& shape,
                                            const leat::pipeline::CostModel& model,
                                            const std::vector<std::int64_t>& limit = {});

/// Those that fit, the fastest first: by time, then by memory.
[[nodiscard]] std::vector<Compared> recommended(std::vector<Compared> kinds);

/// The kinds as a table.
[[nodiscard]] Table table_of(const std::vector<Compared>& kinds);

}  // namespace schedule_program
