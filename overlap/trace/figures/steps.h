// Where a program's steps begin and end on a device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/overlap/trace/figures/cover.h"
#include "leat/overlap/trace/model.h"

namespace overlap::trace {

/// A step of a device.
struct Step {
  std::string name;
  std::optional<std::int64_t> number;  ///< in the name
  Span host;                           ///< its range, up to the next one's
  Span device;                         ///< what is measured
  std::uint64_t ops = 0;               ///< that begin in it
  /// It has no compute kernel (by the host's clock: no op): listed, not measured.
  bool is_empty = false;
};

/// How steps are to be found.
struct StepOptions {
  bool by_host = false;  ///< --clock host
  /// Those with these numbers alone, both ends in.
  std::optional<std::pair<std::int64_t, std::int64_t>> only;
};

struct Steps {
  std::string found_by;  ///< "ranges ProfilerStep#N, ...", for people
  bool is_by_host = false;
  std::vector<Step> all;       ///< ascending
  std::uint64_t measured = 0;  ///< of them, not empty
  Cover time;  ///< that of these; else of all ops, from the first begin to the last end
  std::uint64_t ops_outside = 0;  ///< that begin in no step
  /// Mean time by which the host is ahead: from a range's begin to that of its first kernel.
  std::optional<Time> lead;
};

/// Finds the steps: ranges that rules.step names; else ProfilerStep#N; else three or more ranges
/// with "step", "iter", "iteration" or "batch" before a number; else the period of the kernels;
/// else none. The device has ops.
[[nodiscard]] Steps find_steps(const Trace& trace, const Device& device, const Rules& rules,
                               const StepOptions& options);

/// Returns the smallest lag at which 99 % of the values agree with those after it, of at least
/// three periods; 0: there is none, or none was found in 2^33 comparisons.
[[nodiscard]] std::size_t period_of(const std::vector<std::uint32_t>& values);

}  // namespace overlap::trace
