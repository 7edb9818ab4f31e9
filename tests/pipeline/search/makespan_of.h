// What a schedule takes that was searched for.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "leat/pipeline/check.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/search.h"
#include "leat/pipeline/simulate.h"

namespace leat::pipeline {

/// The makespan of a result's schedule by simulate.h. Reports a failure if the schedule is not what
/// the problem asks for: check() finds a fault, a stage is on another rank, a backward is split, or
/// not, against its wish.
inline std::int64_t makespan_of(const SearchProblem& problem, const Schedule& schedule) {
  const CheckResult checked = check(schedule, {.limit = problem.limit});
  EXPECT_TRUE(checked.findings.empty()) << checked.report(schedule);
  EXPECT_EQ(ranks_of_stages(schedule), problem.rank_of_stage);
  EXPECT_EQ(schedule.microbatches, problem.microbatches);
  const Op other = problem.split ? Op::kBackward : Op::kBackwardInput;
  for (const Row& row : schedule.rows) {
    EXPECT_TRUE(
        std::ranges::none_of(row, [&](const Cell& cell) { return cell.at(0).op == other; }));
  }
  return makespan(schedule, problem.model).value_or(-1);
}

}  // namespace leat::pipeline
