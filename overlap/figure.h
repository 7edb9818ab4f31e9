// Pictures of what was measured, as SVG: timelines of a few steps, and a sweep as heat maps of OE.
// They need no script, no network and no file besides, and are for light and dark screens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "leat/overlap/json.h"
#include "leat/overlap/measure.h"
#include "leat/overlap/sweep.h"

namespace overlap {

/// Style sheet with the colours of figures and of the report, as variables.
extern const std::string_view kPalette;

/// A figure as a file: the timelines of `runs`, or, of a sweep, those of its detailed cells and the
/// heat maps. Empty where there is nothing to draw: no run that has a trace, no sweep.
[[nodiscard]] std::string figure(const Provenance& from, const std::vector<Measured>& runs,
                                 const Sweep* sweep);

/// A timeline for each run that has a trace, over the same length of time: a lane for each reader
/// (of more than 8, for the first 8) and, of each device, for its copies and for the work on
/// batches. As an <svg> element of a page with the palette; empty where there is no trace.
[[nodiscard]] std::string timelines(const std::vector<const Measured*>& runs);

/// OE over Tx / Tc and the step, a map for each depth. Likewise an element of a page.
[[nodiscard]] std::string heat_maps(const Sweep& sweep);

}  // namespace overlap
