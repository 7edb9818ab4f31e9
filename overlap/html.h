// The report to look at: one HTML file that needs no network.
#pragma once

#include <string>

namespace overlap {

/// A page that shows `json`, as json() has written it: sentence, figures, a timeline of a few steps
/// where a run has a trace, the stages' shares, a sweep as a heat map. For light and dark screens.
[[nodiscard]] std::string html(const std::string& json);

}  // namespace overlap
