// What was measured, for people.
#pragma once

#include <string>

#include "leat/overlap/measure.h"
#include "leat/overlap/sweep.h"

namespace overlap {

/// All figures of one shape, in several lines, and the sentence that says what limits the loop.
[[nodiscard]] std::string table(const Measured& measured);
/// One cell of a sweep in one line: what was asked for, Tstep and OE.
[[nodiscard]] std::string line(const Point& point);
/// OE: "0.995"; "?" where it is not known.
[[nodiscard]] std::string efficiency_text(const Measured& measured);
/// OE over Tx / Tc and the step, one block for each depth.
[[nodiscard]] std::string table(const Sweep& sweep);

}  // namespace overlap
