// The report for a browser: one HTML file that needs no network.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "leat/overlap/trace/figures/analysis.h"

namespace overlap::trace {

/// A page has at most as many bytes.
inline constexpr std::size_t kMostPage = 3'000'000;

/// Returns a page that draws the figures of json_report(), which it contains, and the timelines.
/// Lists, names, steps and timelines are thinned until it fits into kMostPage; where they are,
/// "..._thinned" tells of how many, and the page says so. For light and dark screens.
[[nodiscard]] std::string html_report(const std::string& command,
                                      const std::vector<TraceReport>& traces);

}  // namespace overlap::trace
