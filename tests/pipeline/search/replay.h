// What a schedule that was searched for takes, found without Leat's simulator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/pipeline/schedule.h"
#include "leat/pipeline/search.h"

namespace leat::pipeline {

/// Runs the order of a result action by action: each begins when its rank is free and what it needs
/// has come. Reports a failure for an action that is missing, twice, too early in its row or on
/// another rank than its stage, and for an activation too many. Returns the makespan.
inline std::int64_t replay(const SearchProblem& problem, const Schedule& schedule) {
  const std::size_t stages = problem.rank_of_stage.size();
  const auto count = static_cast<std::size_t>(problem.microbatches);
  using Ends = std::vector<std::vector<std::int64_t>>;
  Ends forward(stages, std::vector<std::int64_t>(count, -1));
  Ends backward = forward;
  Ends weight = forward;
  std::vector<std::size_t> at(schedule.rows.size(), 0);
  std::vector<std::int64_t> free(schedule.rows.size(), 0);
  std::vector<std::int64_t> alive(schedule.rows.size(), 0);
  const auto link = [&](std::size_t a, std::size_t b) {
    return problem.rank_of_stage[a] == problem.rank_of_stage[b] ? 0 : problem.model.link;
  };
  std::size_t done = 0;
  const auto step = [&](std::size_t row) {
    const Action action = schedule.rows[row][at[row]].at(0);
    const auto stage = static_cast<std::size_t>(action.stage);
    const auto k = static_cast<std::size_t>(action.microbatch);
    const StageCost& cost = problem.model.of(action.stage);
    EXPECT_EQ(problem.rank_of_stage.at(stage), static_cast<int>(row));
    const bool is_forward = action.op == Op::kForward;
    Ends& mine = is_forward ? forward : action.op == Op::kBackwardWeight ? weight : backward;
    std::int64_t begin = free[row];
    if (is_forward && stage > 0) {
      if (forward[stage - 1][k] < 0) return false;
      begin = std::max(begin, forward[stage - 1][k] + link(stage - 1, stage));
    }
    if (&mine == &backward && stage + 1 < stages) {
      if (backward[stage + 1][k] < 0) return false;
      begin = std::max(begin, backward[stage + 1][k] + link(stage, stage + 1));
    }
    EXPECT_LT(mine[stage].at(k), 0) << "twice";
    EXPECT_TRUE(is_forward || forward[stage][k] >= 0) << "a backward before its F";
    EXPECT_TRUE(&mine != &weight || backward[stage][k] >= 0) << "a W before its I";
    EXPECT_EQ(action.op == Op::kBackward, !problem.split && !is_forward);
    if (is_forward) ++alive[row];
    EXPECT_LE(alive[row], problem.limit.size() == 1 ? problem.limit[0] : problem.limit[row]);
    if (&mine == (problem.split ? &weight : &backward)) --alive[row];
    free[row] =
        begin + (is_forward                         ? cost.forward
                 : action.op == Op::kBackwardInput  ? cost.backward_input
                 : action.op == Op::kBackwardWeight ? cost.backward_weight
                                                    : cost.backward_input + cost.backward_weight);
    mine[stage][k] = free[row];
    ++at[row];
    ++done;
    return true;
  };
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t row = 0; row < schedule.rows.size(); ++row) {
      while (at[row] < schedule.rows[row].size() && step(row)) goes_on = true;
    }
  }
  EXPECT_EQ(done, stages * count * (problem.split ? 3 : 2)) << "some are missing, or wait forever";
  return *std::ranges::max_element(free);
}

}  // namespace leat::pipeline
