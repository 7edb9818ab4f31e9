// The figures for programs: integer nanoseconds by name.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "leat/overlap/trace/figures/analysis.h"

namespace overlap::trace {

/// Returns {"leat-overlap trace": 1, "command": ..., "traces": [{..., "devices": [{"whole": ...,
/// "mean": ..., "steps": [...], "what_if": ...}]}]}. Figures of `mean` are those of all steps over
/// their number, each rounded to a nanosecond; `calls` and `names` are sums over all. null: not
/// known. With `most_steps`, the median of as many neighbours stands for them, and "steps_thinned"
/// tells how many there were.
[[nodiscard]] nlohmann::ordered_json json_tree(
    const std::string& command, const std::vector<TraceReport>& traces,
    std::size_t most_steps = static_cast<std::size_t>(-1));

/// Returns json_tree() as text, indented, with a newline at the end.
[[nodiscard]] std::string json_report(const std::string& command,
                                      const std::vector<TraceReport>& traces);

/// Returns a row for each step of each device, below a row of names.
[[nodiscard]] std::string csv_report(const std::vector<TraceReport>& traces);

/// A condition on a figure of the mean step: "oe<0.9", "idle.host_ns>5ms".
struct Condition {
  std::string text;
  std::string name;  ///< as in JSON, with points
  bool is_less = false;
  double bound = 0;  ///< in the figure's unit
};
/// Throws std::invalid_argument, with what is right, for another text.
[[nodiscard]] Condition parse_condition(const std::string& text);
/// Returns a line for each device where it holds: "rank 0, device 3: oe is 0.61". Throws
/// std::invalid_argument if no device has such a figure.
[[nodiscard]] std::vector<std::string> where_holds(const Condition& condition,
                                                   const std::vector<TraceReport>& traces);

/// "trace.json, rank 2, device 0": as much as is needed to tell it from the others.
[[nodiscard]] std::string name_of(const TraceReport& trace, std::int64_t device,
                                  std::size_t traces);

}  // namespace overlap::trace
