// How many places the known schedules want.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "leat/pipeline/check.h"
#include "leat/pipeline/kinds.h"
#include "leat/pipeline/onnx_1f1b.h"
#include "leat/pipeline/simulate.h"

namespace leat::pipeline {
namespace {

using Times = std::vector<std::optional<std::int64_t>>;
constexpr auto kStops = std::nullopt;

Times times_at(const Schedule& order, int first, int last) {
  Times times;
  for (int c = first; c <= last; ++c) times.push_back(makespan(order, {.capacity = c}));
  return times;
}

TEST(PipelineCapacity, GpipeWantsNoneAndTheAlternatingKindsWantOne) {
  for (int ranks = 2; ranks <= 6; ++ranks) {
    for (int microbatches = 2; microbatches <= 14; ++microbatches) {
      for (const Kind kind : {Kind::kGpipe, Kind::kOneFOneB, Kind::kOnnx1F1B, Kind::kZeroBubble,
                              Kind::kZeroBubbleH2, Kind::kZbv, Kind::kDualPipeV}) {
        if (kind == Kind::kDualPipeV && microbatches < 2 * ranks) continue;
        const CheckResult found = check(make(kind, {.ranks = ranks, .microbatches = microbatches}));
        ASSERT_TRUE(found.findings.empty()) << name(kind);
        const int wanted = kind == Kind::kGpipe ? 0 : 1;
        EXPECT_EQ(found.capacities.to_run, wanted) << name(kind) << ranks << " " << microbatches;
        EXPECT_EQ(found.capacities.full_speed, wanted)
            << name(kind) << ranks << " " << microbatches;
      }
    }
  }
}

TEST(PipelineCapacity, TheLoopedKindsAreFasterWithMore) {
  const Schedule interleaved =
      make(Kind::kInterleaved1F1B, {.ranks = 4, .microbatches = 7, .stages_per_rank = 2});
  EXPECT_EQ(times_at(interleaved, 1, 4), (Times{57, 54, 51, 51}));
  EXPECT_EQ(*capacities(lower(interleaved)).full_speed, 3);
  const Schedule looped =
      make(Kind::kLoopedBfs, {.ranks = 2, .microbatches = 8, .stages_per_rank = 2});
  EXPECT_EQ(times_at(looped, 2, 7), (Times{kStops, kStops, 57, 54, 51, 51}));
  EXPECT_EQ(*capacities(lower(looped)).to_run, 4);
  EXPECT_EQ(*capacities(lower(looped)).full_speed, 6);
}

TEST(PipelineCapacity, OnnxFullTablesNeverStop) {
  for (int microbatches = 1; microbatches <= 12; ++microbatches) {
    for (int stages = 1; stages <= 8; ++stages) {
      const CheckResult found = check(onnx_1f1b(microbatches, stages).full);
      EXPECT_TRUE(found.findings.empty()) << microbatches << " " << stages;
      EXPECT_EQ(found.capacities.to_run, 0) << microbatches << " " << stages;
    }
  }
}

}  // namespace
}  // namespace leat::pipeline
