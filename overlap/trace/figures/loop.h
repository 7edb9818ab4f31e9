// Leat's own loops, as devices: the use of a batch is compute, its copy goes to the device.
#pragma once

#include "leat/overlap/trace/figures/parts.h"
#include "leat/overlap/trace/figures/steps.h"
#include "leat/overlap/trace/model.h"

namespace overlap::trace {

struct DeviceReport;

/// A loop, in the words of a device.
struct LoopDevice {
  Trace trace;  ///< of one device
  Idle idle;    ///< data loading while the consumer waits for a batch, else the host's
};
/// The device has the rank's number; `number` if the loop's name tells none, when idle time has no
/// known cause.
[[nodiscard]] LoopDevice device_of(const Loop& loop, std::int64_t number);

/// Returns whether the loops of a trace share the batches out (Sharing::kDynamic): there are
/// several, and no batch is in two of them.
[[nodiscard]] bool share_out(const std::vector<Loop>& loops);

/// Returns the steps, from the end of one batch's use to that of the next, that rules.step and
/// options.only allow. Where the trace lacks batches between two, there is no step, unless other
/// loops may have had them (`shares_out`). Throws std::invalid_argument if these allow none.
[[nodiscard]] Steps find_steps(const Loop& loop, const Device& device, const Rules& rules,
                               const StepOptions& options, bool shares_out);

/// Sets report.loop, and what a change gives: "copies" (as with two slots on the device), "data",
/// "all". The report is of the loop's device, and has steps that take time; else nothing is set.
void add_loop(const Loop& loop, DeviceReport& report);

}  // namespace overlap::trace
