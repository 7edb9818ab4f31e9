// A simulated schedule as a picture.
#pragma once

#include <string>

#include "leat/pipeline/schedule.h"
#include "leat/pipeline/simulate.h"

namespace schedule_program {

/// An SVG file of its own, for light and dark screens: a lane for each rank, with what it computes,
/// why it is idle, and its transfers; the critical path has a frame. Where the schedule stops, each
/// lane ends with the transfer that is never done. Boxes have tooltips if there are not too many,
/// and arrows show the transfers if there are few.
[[nodiscard]] std::string figure_svg(const leat::pipeline::Schedule& schedule,
                                     const leat::pipeline::Simulation& simulation,
                                     const std::string& name);

}  // namespace schedule_program
