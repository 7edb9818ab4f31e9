// The executor in virtual time: it takes exactly as long as the schedule's timeline, and computes
// what one device computes, one microbatch after the other.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/pipeline/check.h"
#include "leat/pipeline/check/timeline.h"
#include "leat/pipeline/executor/runner.h"
#include "leat/pipeline/text.h"
#include "tests/pipeline/executor/support/model.h"
#include "tests/pipeline/executor/support/random_schedule.h"
#include "tests/support/run.h"

namespace leat::pipeline {
namespace makespan_test {

using support::Model;
using support::Number;
using support::RandomSchedules;

constexpr std::uint64_t kSamples = 13;

/// Runs two steps and an evaluation, and expects of each what it has to take and to compute.
/// Returns whether the schedule ends.
bool expect_as_timeline(const Schedule& lowered, const CostModel& costs, int capacity,
                        int workers) {
  Timeline timeline(lowered, costs);
  const bool ends = timeline.run(capacity);
  const auto body = [&] {
    Model model(lowered, costs);
    Runner runner(lowered, model.parts(), {.most_samples = kSamples, .link = Duration(costs.link)},
                  capacity);
    const auto microbatches = static_cast<std::uint64_t>(lowered.microbatches);
    std::vector<Number> expected(model.stages.size());
    for (const std::uint64_t samples : {kSamples, microbatches}) {
      const TimePoint began = now();
      runner.step(samples, kSamples, true);
      EXPECT_EQ((now() - began).count(), timeline.makespan());
      const auto more = support::gradients_of(lowered.stages, microbatches, samples, kSamples);
      for (std::size_t s = 0; s < more.size(); ++s) expected[s] += more[s];
      EXPECT_EQ(model.sums(), expected);
    }
    runner.evaluate(kSamples);
    Number outputs = 0;
    for (std::uint64_t i = 0; i < kSamples; ++i) {
      Number x = support::Sample::first(i);
      for (Number s = 0; s < model.stages.size(); ++s) x = support::Sample::forward(x, s);
      outputs += x;
    }
    EXPECT_EQ(model.stages.back()->evaluated, outputs);
    EXPECT_EQ(model.sums(), expected);
  };
  VirtualClock clock;
  const SchedulerOptions options{.workers = workers, .clock = &clock};
  if (ends) {
    run(body, options);
  } else {
    EXPECT_THROW(run(body, options), Deadlock);
  }
  return ends;
}

constexpr int kSchedules = leat::support::rounds(1'000);

/// make(random) is a lowered schedule. Of the schedules many end, and many stop.
template <class Make>
void expect_of_many(std::uint32_t first_seed, const Make& make) {
  int ended = 0;
  for (int i = 0; i < kSchedules && !testing::Test::HasFailure(); ++i) {
    const std::uint32_t seed = first_seed + static_cast<std::uint32_t>(i);
    RandomSchedules random(seed);
    const Schedule lowered = make(random);
    const CostModel costs = random.costs(lowered);
    const int capacity = random.below(4);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", capacity " + std::to_string(capacity) +
                 ", link " + std::to_string(costs.link) + "\n" + to_csv(lowered));
    if (expect_as_timeline(lowered, costs, capacity, 1 + i % 2)) ++ended;
  }
  EXPECT_GT(ended, kSchedules / 4);
  EXPECT_LT(ended, kSchedules - kSchedules / 20);
}

TEST(ExecutorMakespan, OfAnyOrderIsThatOfItsTimelineAtAnyCapacityAndWhereThatStopsItIsADeadlock) {
  expect_of_many(0, [](RandomSchedules& random) { return lower(random.order()); });
}

TEST(ExecutorMakespan, OfCellsWithSeveralActionsIsThatOfItsTimeline) {
  expect_of_many(10'000,
                 [](RandomSchedules& random) { return random.joined(lower(random.order())); });
}

}  // namespace makespan_test
}  // namespace leat::pipeline
