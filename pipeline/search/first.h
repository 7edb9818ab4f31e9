// First solutions: a search begins with one; for a problem that is too large it has nothing else.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "leat/pipeline/schedule.h"
#include "leat/pipeline/search.h"
#include "leat/pipeline/search/bounds.h"
#include "leat/pipeline/search/chains.h"

namespace leat::pipeline {

/// A schedule and what it takes.
struct Solution {
  Schedule schedule;
  Ticks makespan = 0;
};

/// Returns the schedule that places the next element of each chain of `order`, one after the other.
[[nodiscard]] Schedule schedule_of(const Chains& chains, const std::vector<std::size_t>& order);

/// Returns the best of some quick schedules. A few rules say which element to place first, and how
/// far apart microbatches enter. The known kinds (kinds.h) are tried if they have the problem's
/// placement and keep to the limit. Ends early with a schedule that takes `bound`; after the first
/// one, also if `is_stopped`.
[[nodiscard]] Solution first_solution(const SearchProblem& problem, const Chains& chains,
                                      const Bounds& bounds, Ticks bound,
                                      const std::function<bool()>& is_stopped);

}  // namespace leat::pipeline
