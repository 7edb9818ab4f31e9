// Tables and lines of figures, for people.
#pragma once

#include <string>

#include "leat/overlap/measure.h"
#include "leat/overlap/sweep.h"

namespace overlap {

/// Returns all figures of one run, and the sentence that says what limits the loop.
[[nodiscard]] std::string run_table(const Measurement& measured);
/// Returns one line about a cell of a sweep: depth, max(Tx, Tc), Tx / Tc, Tstep and OE.
[[nodiscard]] std::string summary_line(const SweepCell& cell);
/// Returns OE as "0.995", or "?" if it is not known.
[[nodiscard]] std::string efficiency_text(const Measurement& measured);
/// Returns OE over Tx / Tc and the step, a block for each depth, and why cells were left out.
[[nodiscard]] std::string sweep_table(const Sweep& sweep);

}  // namespace overlap
