// First solutions: what a search begins with, and all that it has of a problem that is too large.
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

/// The schedule that places elements of `order`, chains, one after the other.
[[nodiscard]] Schedule schedule_of(const Chains& chains, const std::vector<std::size_t>& order);

/// The best of some quick schedules: those of a few rules which element to place first and how far
/// apart microbatches enter, and those of the known kinds (kinds.h) whose placement is the
/// problem's and that keep to the limit. One that takes `bound` ends it, and so does `is_stopped`,
/// after the first.
[[nodiscard]] Solution first_solution(const SearchProblem& problem, const Chains& chains,
                                      const Bounds& bounds, Ticks bound,
                                      const std::function<bool()>& is_stopped);

}  // namespace leat::pipeline
