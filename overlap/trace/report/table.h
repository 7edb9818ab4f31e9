// The figures for people.
#pragma once

#include <string>
#include <vector>

#include "leat/overlap/trace/figures/analysis.h"

namespace overlap::trace {

/// Returns some lines for each device and loop, and what the ranks say together.
[[nodiscard]] std::string text_report(const std::vector<TraceReport>& traces);

/// Returns both mean steps, their differences, and the ten op names that changed most, for the
/// first device of each. Throws std::invalid_argument if a trace has no device.
[[nodiscard]] std::string comparison(const std::vector<TraceReport>& traces,
                                     const std::vector<TraceReport>& others);

}  // namespace overlap::trace
