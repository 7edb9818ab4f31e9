// The report to look at: one HTML file that needs no network.
#pragma once

#include <string>
#include <vector>

#include "leat/overlap/json.h"
#include "leat/overlap/measure.h"
#include "leat/overlap/sweep.h"

namespace overlap {

/// A page that shows what json() writes of the same: of each run, and of a sweep's detailed cell,
/// the sentence, the figures, a timeline of a few steps where there is a trace and the stages'
/// shares; of a sweep the heat maps. For light and dark screens.
[[nodiscard]] std::string html(const Provenance& from, const std::vector<Measured>& runs,
                               const Sweep* sweep);

}  // namespace overlap
