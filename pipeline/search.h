// The shortest schedule under a limit of activations, with a proved bound.
//
// Thread-safe. One search uses one thread, and memory that its options bound.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/simulate.h"

namespace leat::pipeline {

/// What is searched for.
struct SearchProblem {
  std::vector<int> rank_of_stage;   ///< S entries; each rank from 0 up has a stage
  std::int32_t microbatches = 1;    ///< B
  std::vector<std::int64_t> limit;  ///< the most activations of each rank; one value: of all
  bool split = true;                ///< I and W apart; else B
  CostModel model = {};             ///< its capacity has to be none
};
/// How much may be spent.
struct SearchOptions {
  Duration time = std::chrono::seconds(10);         ///< real time; one schedule is always made
  std::size_t memory_bytes = std::size_t{2} << 30;  ///< for states; schedules come on top
  std::stop_token stop = {};
};
/// What was found.
struct SearchResult {
  Schedule schedule;  ///< an order that takes `makespan` and keeps to the limit
  std::int64_t makespan = 0;
  std::int64_t bound = 0;  ///< no schedule is shorter
  /// Whether no schedule is shorter than this one.
  [[nodiscard]] bool is_proved() const noexcept { return makespan == bound; }
};
/// Searches. Throws std::invalid_argument for a problem that no schedule can solve: a limit less
/// than 1 or less than a rank's stages in a row need, or a rank without a stage. Also throws it for
/// more than 2^22 actions, and for times with a sum above 2^61.
[[nodiscard]] SearchResult search(const SearchProblem& problem, const SearchOptions& options = {});

/// Returns a bound that needs no search. For one stage a rank: head + what the fewest activations
/// force. For any placement: the busiest rank's work between the earliest begin and the latest end.
[[nodiscard]] std::int64_t lower_bound(const SearchProblem& problem);

}  // namespace leat::pipeline
