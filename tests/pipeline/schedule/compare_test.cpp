// The kinds beside each other: the figures are those of each kind alone, and what fits is listed,
// the fastest first.
#include "leat/pipeline/schedule/compare.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/texts.h"

namespace schedule_program {
namespace compare_test {

using namespace leat::pipeline;

const Compared& of(const std::vector<Compared>& all, Kind kind) {
  for (const Compared& one : all) {
    if (one.kind == kind) return one;
  }
  throw std::out_of_range("no such kind");
}

std::vector<std::string> names_of(const std::vector<Compared>& all) {
  std::vector<std::string> names;
  for (const Compared& one : all) names.emplace_back(name(one.kind));
  return names;
}

TEST(ScheduleCompare, HasEveryKindWithItsKnownFigures) {
  const std::vector<Compared> all = compare({.ranks = 4, .microbatches = 8}, {});
  ASSERT_EQ(all.size(), kinds().size());
  const auto expect = [&](Kind kind, std::int64_t makespan, std::int64_t peak) {
    EXPECT_EQ(of(all, kind).makespan, makespan) << name(kind);
    EXPECT_EQ(of(all, kind).peak_activations, peak) << name(kind);
    EXPECT_EQ(of(all, kind).peak_bytes, peak) << name(kind);
  };
  expect(Kind::kGpipe, 33, 8);
  expect(Kind::kOneFOneB, 33, 4);
  expect(Kind::kOnnx1F1B, 33, 4);
  expect(Kind::kInterleaved1F1B, 57, 11);
  expect(Kind::kLoopedBfs, 33, 8);
  expect(Kind::kZeroBubble, 27, 4);
  expect(Kind::kZeroBubbleH2, 27, 7);
  expect(Kind::kZbv, 51, 8);
  expect(Kind::kDualPipeV, 54, 9);
  EXPECT_DOUBLE_EQ(of(all, Kind::kGpipe).bubble, 1 - 24.0 / 33);
  EXPECT_EQ(of(all, Kind::kGpipe).capacities.to_run, 0);
  EXPECT_EQ(of(all, Kind::kOneFOneB).capacities.to_run, 1);
  EXPECT_EQ(of(all, Kind::kOneFOneB).capacities.full_speed, 1);
  EXPECT_EQ(of(all, Kind::kZbv).time, 25.5);  // of two stages for each rank, each half as long
}

TEST(ScheduleCompare, StagesPerRankAreOfTheKindsThatHaveAChoice) {
  const std::vector<Compared> all =
      compare({.ranks = 2, .microbatches = 4, .stages_per_rank = 3}, {});
  EXPECT_EQ(of(all, Kind::kLoopedBfs).stages_per_rank, 3);
  EXPECT_EQ(of(all, Kind::kInterleaved1F1B).stages_per_rank, 3);
  EXPECT_EQ(of(all, Kind::kZeroBubble).stages_per_rank, 3);
  EXPECT_EQ(of(all, Kind::kGpipe).stages_per_rank, 1);
  EXPECT_EQ(of(all, Kind::kZbv).stages_per_rank, 2);
}

TEST(ScheduleCompare, AKindWithoutTheShapeSaysWhy) {
  const std::vector<Compared> all = compare({.ranks = 4, .microbatches = 7}, {});
  EXPECT_FALSE(of(all, Kind::kDualPipeV).makespan.has_value());
  EXPECT_NE(of(all, Kind::kDualPipeV).why_not, "");
  EXPECT_TRUE(of(all, Kind::kGpipe).makespan.has_value());
}

TEST(ScheduleCompare, AModelOfEachStageIsOfKindsWithSoMany) {
  CostModel model;
  model.stages.assign(8, {.forward = 2});
  const std::vector<Compared> all = compare({.ranks = 4, .microbatches = 8}, model);
  EXPECT_EQ(of(all, Kind::kGpipe).why_not, "it has 4 stages, and the model 8");
  EXPECT_EQ(of(all, Kind::kZbv).why_not, "");
  EXPECT_EQ(of(all, Kind::kZbv).time, of(all, Kind::kZbv).makespan);
}

TEST(ScheduleCompare, TheTimeOfManyStagesHasTheWholeLink) {
  // One microbatch: with v = 2, S = 4 stages of half a time each, there and back over 3 links.
  const CostModel model{.stages = {{.forward = 4, .backward_input = 4, .backward_weight = 0}},
                        .link = 10};
  const std::vector<Compared> all =
      compare({.ranks = 2, .microbatches = 1, .stages_per_rank = 2}, model);
  EXPECT_EQ(of(all, Kind::kLoopedBfs).time, 4 * 2 + 4 * 2 + 6 * 10);
  EXPECT_EQ(of(all, Kind::kLoopedBfs).makespan, 4 * 4 + 4 * 4 + 6 * 10);
}

TEST(ScheduleCompare, RecommendedIsWhatFitsTheFastestFirst) {
  const std::vector<Compared> fitting =
      recommended(compare({.ranks = 4, .microbatches = 8}, {}, {4}));
  EXPECT_EQ(names_of(fitting),
            (std::vector<std::string>{"zero_bubble", "one_f_one_b", "onnx_1f1b"}));
  EXPECT_TRUE(recommended(compare({.ranks = 4, .microbatches = 8}, {}, {1})).empty());
  // Rank r of 1F1B has R - r of them.
  EXPECT_EQ(names_of(recommended(compare({.ranks = 4, .microbatches = 8}, {}, {4, 3, 2, 1}))),
            (std::vector<std::string>{"one_f_one_b"}));
}

TEST(ScheduleCompare, WhatStopsIsNotRecommended) {
  const std::vector<Compared> all = compare({.ranks = 4, .microbatches = 8}, {.capacity = 0});
  EXPECT_FALSE(of(all, Kind::kOneFOneB).makespan.has_value());
  EXPECT_EQ(of(all, Kind::kOneFOneB).why_not, "it stops with capacity 0");
  EXPECT_EQ(names_of(recommended(all)), (std::vector<std::string>{"gpipe", "looped_bfs"}));
}

TEST(ScheduleCompare, ANumberOfLimitsThatIsNotThatOfRanksIsRefused) {
  leat::support::expect_throws<std::invalid_argument>(
      [] {
        (void)compare({.ranks = 4, .microbatches = 8}, {}, {1, 2});
      },
      {"2 limits", "4 ranks"});
}

}  // namespace compare_test
}  // namespace schedule_program
