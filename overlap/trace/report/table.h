// The figures for people.
#pragma once

#include <string>
#include <vector>

#include "leat/overlap/trace/figures/analysis.h"

namespace overlap::trace {

/// Returns some lines for each device, and what the ranks say together.
[[nodiscard]] std::string text_report(const std::vector<TraceReport>& traces);

/// Returns both mean steps, their differences, and the ten op names that changed most, of the first
/// device of each, of the second, and so on.
[[nodiscard]] std::string comparison(const std::vector<TraceReport>& traces,
                                     const std::vector<TraceReport>& others);

}  // namespace overlap::trace
