// Explorations as tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "leat/csp/explore.h"
#include "tests/csp/explore/scenarios.h"

namespace leat::explore_test {

using scenarios::kMostSchedules;

/// Explores, prints how much, and fails the test if a schedule fails.
inline void expect_holds(void (*program)(), const ExploreOptions& options) {
  const ExploreResult result = explore(program, options);
  EXPECT_TRUE(result) << result.failure << "\n" << result.schedule;
  EXPECT_TRUE(result.complete || !options.exhaustive || result.schedules == kMostSchedules);
  std::printf(
      "%llu schedules of up to %llu steps%s\n", static_cast<unsigned long long>(result.schedules),
      static_cast<unsigned long long>(result.longest), result.complete ? ": all of them" : "");
}

/// Every schedule of f on so many workers, with at most so many preemptions.
inline ExploreOptions every(int workers, int preemptions = 2) {
  return {.schedules = kMostSchedules,
          .exhaustive = true,
          .preemptions = preemptions,
          .workers = workers};
}
/// A sample of them.
inline ExploreOptions some(int workers, std::uint64_t schedules = 2000) {
  return {.schedules = std::min(schedules, kMostSchedules), .workers = workers};
}

}  // namespace leat::explore_test
