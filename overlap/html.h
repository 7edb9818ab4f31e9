// The report for a browser: one HTML file that needs no network.
#pragma once

#include <string>
#include <vector>

#include "leat/overlap/json.h"
#include "leat/overlap/measure.h"
#include "leat/overlap/sweep.h"

namespace overlap {

/// Returns a page with the figures of json_report(). For each run and each detailed cell of a
/// sweep, it shows the sentence, the figures, the stages' shares and, if there is a trace, a
/// timeline of a few steps; for a sweep, the heat maps. For light and dark screens.
[[nodiscard]] std::string html_report(const Provenance& from, const std::vector<Measurement>& runs,
                                      const Sweep* sweep);

}  // namespace overlap
