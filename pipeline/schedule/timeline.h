// A simulated schedule as a timeline for Perfetto and chrome://tracing.
#pragma once

#include <string>

#include "leat/pipeline/simulate.h"

namespace schedule_program {

/// A simulation in the Trace Event Format; a tick is a microsecond. Each rank is a process, with a
/// track for what it computes, one for its transfers, and a graph of its activations. An arrow for
/// each transfer leads from the action that makes the value to the one that uses it.
[[nodiscard]] std::string timeline_json(const leat::pipeline::Simulation& simulation);

}  // namespace schedule_program
