#include "leat/pipeline/kinds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "leat/pipeline/text.h"
#include "tests/support/texts.h"

namespace leat::pipeline {
namespace {

using leat::support::expect_throws;
using RowTexts = std::vector<std::string>;

/// Each row as CSV, without idle cells, and without the actions on whole stages.
RowTexts computing_rows(const Schedule& schedule) {
  RowTexts lines;
  for (const Row& row : schedule.rows) {
    std::string line;
    for (const Cell& cell : row) {
      if (cell.empty() || !has_microbatch(cell.front().op)) continue;
      line += (line.empty() ? "" : " ") + to_string(cell);
    }
    lines.push_back(line);
  }
  return lines;
}

/// Calls f(kind, shape, schedule) for every schedule of up to 6 ranks, 16 microbatches and 3 stages
/// per rank.
template <class F>
void for_each_made(F&& f) {
  for (const Kind kind : kinds()) {
    for (std::int32_t ranks = 1; ranks <= 6; ++ranks) {
      for (std::int32_t microbatches = 1; microbatches <= 16; ++microbatches) {
        for (std::int32_t depth = 1; depth <= 3; ++depth) {
          const ScheduleShape shape{ranks, microbatches, depth};
          try {
            f(kind, shape, make(kind, shape));
          } catch (const std::invalid_argument&) {  // other tests look at them
          }
        }
      }
    }
  }
}

TEST(PipelineKinds, OrdersAreThoseThatTorchWrote) {
  const std::map<std::string, Kind> names = {{"GPipe", Kind::kGpipe},
                                             {"Interleaved1F1B", Kind::kInterleaved1F1B},
                                             {"InterleavedZeroBubble", Kind::kZeroBubble},
                                             {"LoopedBFS", Kind::kLoopedBfs},
                                             {"ZBVZeroBubble", Kind::kZbv},
                                             {"DualPipeV", Kind::kDualPipeV}};
  const std::regex named("torch-[0-9.]+-(\\w+)-v(\\d+)-r(\\d+)-b(\\d+)-compute\\.csv");
  std::set<Kind> seen;
  for (const auto& entry : std::filesystem::directory_iterator("tests/pipeline/data/torch")) {
    const std::string file = entry.path().filename().string();
    std::smatch parts;
    if (!std::regex_match(file, parts, named) || !names.contains(parts[1])) continue;
    const Kind kind = names.at(parts[1]);
    const ScheduleShape shape{.ranks = std::stoi(parts[3]),
                              .microbatches = std::stoi(parts[4]),
                              .stages_per_rank = std::stoi(parts[2])};
    EXPECT_EQ(computing_rows(make(kind, shape)), computing_rows(read_schedule(entry.path())))
        << file;
    seen.insert(kind);
  }
  EXPECT_EQ(seen.size(), names.size());
}

TEST(PipelineKinds, OneFOneBBeginsWithAsManyForwardsAsRanksAreBehindAndOne) {
  EXPECT_EQ(computing_rows(make(Kind::kOneFOneB, {.ranks = 3, .microbatches = 4})),
            (RowTexts{"0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3",  //
                      "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3",  //
                      "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3"}));
}

TEST(PipelineKinds, OneFOneBTakesFewerMicrobatchesThanRanks) {
  EXPECT_EQ(computing_rows(make(Kind::kOneFOneB, {.ranks = 4, .microbatches = 2})),
            (RowTexts{"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1", "2F0 2F1 2B0 2B1", "3F0 3B0 3F1 3B1"}));
}

TEST(PipelineKinds, ZeroBubbleOfOneStagePerRankTakesAnyNumberOfMicrobatches) {
  EXPECT_EQ(computing_rows(make(Kind::kZeroBubble, {.ranks = 3, .microbatches = 4})),
            (RowTexts{"0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3",
                      "1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3",
                      "2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3"}));
  // Five do not divide into two rounds.
  EXPECT_EQ(computing_rows(make(Kind::kZeroBubble, {.ranks = 2, .microbatches = 5})),
            (RowTexts{"0F0 0F1 0I0 0W0 0F2 0I1 0W1 0F3 0I2 0W2 0F4 0I3 0W3 0I4 0W4",
                      "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1F3 1I3 1W2 1F4 1I4 1W3 1W4"}));
  EXPECT_EQ(computing_rows(make(Kind::kZeroBubble, {.ranks = 3, .microbatches = 1})),
            (RowTexts{"0F0 0I0 0W0", "1F0 1I0 1W0", "2F0 2I0 2W0"}));
}

TEST(PipelineKinds, ZeroBubbleH2RunsTwiceAsFarAhead) {
  EXPECT_EQ(computing_rows(make(Kind::kZeroBubbleH2, {.ranks = 2, .microbatches = 4})),
            (RowTexts{"0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3",
                      "1F0 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3"}));
}

TEST(PipelineKinds, GpipesBackwardsGoUpAndLoopedBfsDown) {
  EXPECT_EQ(computing_rows(make(Kind::kGpipe, {.ranks = 1, .microbatches = 3})),
            (RowTexts{"0F0 0F1 0F2 0B0 0B1 0B2"}));
  EXPECT_EQ(
      computing_rows(make(Kind::kLoopedBfs, {.ranks = 1, .microbatches = 2, .stages_per_rank = 2})),
      (RowTexts{"0F0 0F1 1F0 1F1 1B1 1B0 0B1 0B0"}));
}

TEST(PipelineKinds, EveryStageComputesEveryMicrobatchOnceInOrder) {
  int schedules = 0;
  for_each_made([&](Kind kind, const ScheduleShape& shape, const Schedule& schedule) {
    ++schedules;
    ASSERT_EQ(schedule.stages, shape.ranks * shape.stages_per_rank);
    ASSERT_EQ(schedule.microbatches, shape.microbatches);
    // The next microbatch of each stage: forward, input gradient, weight gradient.
    std::map<std::int32_t, std::array<std::int32_t, 3>> next;
    const auto take = [&](const Action& action, std::size_t which) {
      const std::int32_t count = next[action.stage][which]++;
      const bool down = kind == Kind::kLoopedBfs && which > 0;
      ASSERT_EQ(action.microbatch, down ? shape.microbatches - 1 - count : count)
          << name(kind) << ' ' << to_string(action);
    };
    for (const Row& row : schedule.rows) {
      for (const Cell& cell : row) {
        for (const Action& action : cell) {
          if (action.op == Op::kForward) take(action, 0);
          if (action.op == Op::kBackward || action.op == Op::kBackwardInput) take(action, 1);
          if (action.op == Op::kBackward || action.op == Op::kBackwardWeight) take(action, 2);
        }
      }
    }
    ASSERT_EQ(std::ssize(next), schedule.stages);
    for (const auto& [stage, counts] : next) {
      for (const std::int32_t count : counts) ASSERT_EQ(count, shape.microbatches) << name(kind);
    }
  });
  EXPECT_GT(schedules, 1'000);
}

TEST(PipelineKinds, StagesGoRoundTheRanksOrThereAndBack) {
  const auto ranks = [](Kind kind, std::int32_t depth) {
    return ranks_of_stages(make(kind, {.ranks = 3, .microbatches = 6, .stages_per_rank = depth}));
  };
  const std::vector<int> round = {0, 1, 2, 0, 1, 2};
  const std::vector<int> there_and_back = {0, 1, 2, 2, 1, 0};
  EXPECT_EQ(ranks(Kind::kInterleaved1F1B, 2), round);
  EXPECT_EQ(ranks(Kind::kLoopedBfs, 2), round);
  EXPECT_EQ(ranks(Kind::kZeroBubble, 2), round);
  EXPECT_EQ(ranks(Kind::kZbv, 2), there_and_back);
  EXPECT_EQ(ranks(Kind::kDualPipeV, 2), there_and_back);
  EXPECT_EQ(ranks(Kind::kGpipe, 1), (std::vector{0, 1, 2}));
}

TEST(PipelineKinds, WithoutStagesPerRankAKindTakesTheLeastThatItHas) {
  const std::map<Kind, std::int32_t> more = {
      {Kind::kInterleaved1F1B, 2}, {Kind::kZbv, 2}, {Kind::kDualPipeV, 2}};
  for (const Kind kind : kinds()) {
    const std::int32_t least = more.contains(kind) ? more.at(kind) : 1;
    EXPECT_EQ(make(kind, {.ranks = 4, .microbatches = 8}).stages, 4 * least) << name(kind);
  }
}

TEST(PipelineKinds, HaveNames) {
  std::set<std::string_view> names;
  for (const Kind kind : kinds()) {
    EXPECT_EQ(kind_named(name(kind)), kind);
    names.insert(name(kind));
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"gpipe", "one_f_one_b", "onnx_1f1b",
                                               "interleaved_1f1b", "looped_bfs", "zero_bubble",
                                               "zero_bubble_h2", "zbv", "dualpipe_v"}));
  EXPECT_EQ(kind_named("1f1b"), std::nullopt);
  EXPECT_EQ(kind_named(""), std::nullopt);
}

void expect_kind_refused(Kind kind, const ScheduleShape& shape,
                         std::initializer_list<std::string_view> parts) {
  expect_throws<std::invalid_argument>([&] { (void)make(kind, shape); }, parts);
}

TEST(PipelineKinds, RoundsThatAreNotEqualAreRefusedWithTheNearestThatAre) {
  expect_kind_refused(
      Kind::kInterleaved1F1B, {4, 9, 2},
      {"interleaved_1f1b", "9 microbatches on 4 ranks", "2 equal rounds", "8 or 10"});
  expect_kind_refused(Kind::kZeroBubble, {4, 13, 2}, {"zero_bubble", "3 equal rounds", "12 or 15"});
  for (const Kind kind : {Kind::kInterleaved1F1B, Kind::kZeroBubble}) {
    for (std::int32_t ranks = 1; ranks <= 6; ++ranks) {
      std::int32_t last = 0;  // number of microbatches that did
      std::int32_t expected = 0;
      for (std::int32_t microbatches = 1; microbatches <= 40; ++microbatches) {
        const std::int32_t rounds = std::max(1, microbatches / ranks);
        try {
          (void)make(kind, {ranks, microbatches, 2});
          EXPECT_EQ(microbatches % rounds, 0);
          if (expected > 0) {
            EXPECT_EQ(microbatches, expected);
          }
          last = microbatches;
          expected = 0;
        } catch (const std::invalid_argument& error) {
          EXPECT_NE(microbatches % rounds, 0);
          std::smatch said;
          const std::string text = error.what();
          ASSERT_TRUE(std::regex_search(text, said, std::regex("; (\\d+) or (\\d+) do$")));
          EXPECT_EQ(std::stoi(said[1]), last) << text;
          expected = std::stoi(said[2]);
        }
      }
    }
  }
}

TEST(PipelineKinds, DualPipeVWithLessThanTwoMicrobatchesForEachRankIsRefused) {
  expect_kind_refused(Kind::kDualPipeV, {4, 7, 2},
                      {"dualpipe_v", "7 microbatches on 4 ranks", "8"});
  EXPECT_EQ(make(Kind::kDualPipeV, {4, 8, 2}).microbatches, 8);
}

TEST(PipelineKinds, StagesPerRankThatAKindDoesNotHaveAreRefused) {
  expect_kind_refused(Kind::kGpipe, {4, 8, 2}, {"gpipe", "2 stages per rank", "exactly 1"});
  expect_kind_refused(Kind::kOneFOneB, {4, 8, 2}, {"exactly 1"});
  expect_kind_refused(Kind::kOnnx1F1B, {4, 8, 2}, {"exactly 1"});
  expect_kind_refused(Kind::kZeroBubbleH2, {4, 8, 2}, {"exactly 1"});
  expect_kind_refused(Kind::kInterleaved1F1B, {4, 8, 1}, {"1 stages per rank", "at least 2"});
  expect_kind_refused(Kind::kZbv, {4, 8, 1}, {"exactly 2"});
  expect_kind_refused(Kind::kDualPipeV, {4, 8, 3}, {"exactly 2"});
  expect_kind_refused(Kind::kLoopedBfs, {4, 8, -1}, {"-1 stages per rank", "at least 1"});
}

TEST(PipelineKinds, SizesOutOfRangeAreRefusedBeforeMemoryIsTaken) {
  for (const Kind kind : kinds()) {
    expect_kind_refused(kind, {0, 8}, {"0 ranks", "at least 1"});
    expect_kind_refused(kind, {-1, 8}, {"-1 ranks"});
    expect_kind_refused(kind, {4, 0}, {"0 microbatches", "1 to 1048576"});
    expect_kind_refused(kind, {1, 1 << 21}, {"2097152 microbatches"});
    expect_kind_refused(kind, {1 << 21, 1}, {"at most 1048576 stages"});
    expect_kind_refused(kind, {1 << 13, 1 << 14}, {"cells", "at most 67108864"});
  }
  expect_kind_refused(Kind::kLoopedBfs, {1 << 30, 1, 1 << 20}, {"stages"});
  expect_kind_refused(Kind::kLoopedBfs, {1, 1 << 20, 64}, {"134217728 cells"});
  expect_kind_refused(Kind::kGpipe, {1 << 10, (1 << 15) + 1}, {"67110912 cells"});
  expect_kind_refused(Kind::kZbv, {1 << 19, 1}, {"cells"});
}

}  // namespace
}  // namespace leat::pipeline
