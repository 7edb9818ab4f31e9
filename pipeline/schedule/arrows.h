// The values of a simulated schedule that cross from rank to rank.
#pragma once

#include <cstddef>
#include <vector>

#include "leat/pipeline/simulate.h"

namespace schedule_program {

/// A value's way. The spans are the simulation's.
struct Arrow {
  std::size_t from = 0;                        ///< the rank that makes it
  const leat::pipeline::Span* made = nullptr;  ///< F, or B or I
  std::size_t to = 0;                          ///< the rank that uses it
  const leat::pipeline::Span* used = nullptr;  ///< F, B or I
};

/// One for each Send whose value has been used, in the order of ranks and their Sends.
[[nodiscard]] std::vector<Arrow> arrows_of(const leat::pipeline::Simulation& simulation);

}  // namespace schedule_program
