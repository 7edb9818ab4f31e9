// Draws the steps of a trace as text.
#pragma once

#include <string>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/trace.h"

namespace leat::feeder {

/// A stretch of a device's time, since some beginning.
struct DeviceSpan {
  Duration begin{};
  Duration end{};
};

/// What a device did for one batch.
struct TimedStep {
  DeviceSpan copy;
  DeviceSpan use;
};

/// Returns Trace::timeline() for one device, of the batches that it has copied and used.
[[nodiscard]] std::string timeline_text(std::vector<TimedStep> steps,
                                        const TimelineOptions& options);

}  // namespace leat::feeder
