// Figures as SVG: timelines of a few steps, and heat maps of OE for a sweep. They need no script,
// no network and no other file, and suit light and dark screens.
#pragma once

#include <string>
#include <vector>

#include "leat/overlap/json.h"
#include "leat/overlap/measure.h"
#include "leat/overlap/sweep.h"

namespace overlap {

/// Returns a figure as a file of its own: the timelines of `runs` or, for a sweep, the timelines of
/// its detailed cells and the heat maps. Returns "" if there is nothing to draw: neither a run with
/// a trace nor a sweep.
[[nodiscard]] std::string svg_figure(const Provenance& from, const std::vector<Measurement>& runs,
                                     const Sweep* sweep);

/// Returns an <svg> element for a page with the palette: a timeline for each run, all over the same
/// length of time. It has a lane for each of the first 8 readers and, for each device, a lane for
/// the copies and one for the work on batches. Every run must have a trace. Returns "" without
/// runs.
[[nodiscard]] std::string timelines_svg(const std::vector<const Measurement*>& runs);

/// Returns an <svg> element for a page with the palette: OE over Tx / Tc and the step, for each
/// depth.
[[nodiscard]] std::string heat_maps_svg(const Sweep& sweep);

}  // namespace overlap
