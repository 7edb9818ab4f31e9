#include "leat/pipeline/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "leat/pipeline/kinds.h"
#include "leat/pipeline/simulate.h"
#include "tests/pipeline/search/makespan_of.h"

namespace leat::pipeline {
namespace {

using namespace std::chrono_literals;

SearchProblem line(int stages, std::int32_t microbatches, std::int64_t limit, bool split = true) {
  SearchProblem problem;
  problem.microbatches = microbatches;
  problem.limit = {limit};
  problem.split = split;
  for (int stage = 0; stage < stages; ++stage) problem.rank_of_stage.push_back(stage);
  return problem;
}

// Two stages a rank: r and 2 R - 1 - r.
SearchProblem vee(int ranks, std::int32_t microbatches, std::int64_t limit) {
  SearchProblem problem = line(ranks, microbatches, limit);
  for (int rank = ranks; rank-- > 0;) problem.rank_of_stage.push_back(rank);
  return problem;
}

// One stage a rank: what no schedule is below, by arithmetic alone.
std::int64_t bound_by_arithmetic(const SearchProblem& problem) {
  const auto stages = static_cast<std::int32_t>(problem.rank_of_stage.size());
  const CostModel& model = problem.model;
  const auto f = [&](std::int32_t s) { return model.of(s).forward; };
  const auto w = [&](std::int32_t s) { return problem.split ? model.of(s).backward_weight : 0; };
  const auto i = [&](std::int32_t s) {
    return model.of(s).backward_input + (problem.split ? 0 : model.of(s).backward_weight);
  };
  const std::int64_t b = problem.microbatches;
  const std::int64_t m = std::min<std::int64_t>(problem.limit[0], b);
  std::int64_t bound = 0;
  for (std::int32_t s = 0; s < stages; ++s) {
    std::int64_t head = 0;
    std::int64_t back = s == 0 ? 0 : w(0);
    std::int64_t trip = f(s);
    for (std::int32_t k = 0; k < s; ++k) head += f(k) + model.link;
    for (std::int32_t k = 0; k < s; ++k) back += i(k) + model.link;
    for (std::int32_t k = s + 1; k < stages; ++k) trip += f(k) + i(k) + 2 * model.link;
    bound = std::max({bound,
                      head + std::max<std::int64_t>(0, trip - m * f(s)) + b * (f(s) + i(s) + w(s)),
                      head + (b - 1) / m * (trip + i(s) + w(s)) + (b - 1) % m * f(s) + trip + i(s) +
                          std::max(w(s), back)});
  }
  return bound;
}

void expect_proved(const SearchProblem& problem, std::int64_t makespan) {
  const SearchResult result = search(problem);
  EXPECT_TRUE(result.is_proved());
  EXPECT_EQ(result.makespan, makespan);
  EXPECT_EQ(makespan_of(problem, result.schedule), makespan);
}

TEST(Search, FindsAndProvesTheOptimaOfOneStageARank) {
  expect_proved(line(4, 6, 2), 31);
  expect_proved(line(4, 6, 3), 24);
  expect_proved(line(4, 8, 3), 31);
  expect_proved(line(4, 12, 3), 44);
  expect_proved(line(8, 16, 4), 79);
}

TEST(Search, FindsAndProvesTheOptimaOfAnUnsplitBackward) {
  expect_proved(line(4, 6, 2, /*split=*/false), 39);
  expect_proved(line(4, 8, 3, /*split=*/false), 39);
}

TEST(Search, FindsAndProvesTheOptimaOfAV) {
  expect_proved(vee(4, 8, 6), 53);
  expect_proved(vee(4, 8, 4), 59);
}

TEST(Search, ProvesUnevenTimesAndLinks) {
  std::mt19937 random(1);
  const auto up_to = [&](unsigned most) { return static_cast<std::int64_t>(1 + random() % most); };
  for (int round = 0; round < 40; ++round) {
    SearchProblem problem = line(4, 6, 1 + round % 5, /*split=*/round % 3 > 0);
    problem.model.stages.clear();
    for (int stage = 0; stage < 4; ++stage) {
      problem.model.stages.push_back(
          {.forward = up_to(5), .backward_input = up_to(5), .backward_weight = up_to(5)});
    }
    problem.model.link = up_to(5) - 1;
    const SearchResult result = search(problem);
    EXPECT_TRUE(result.is_proved()) << "round " << round;
    EXPECT_EQ(makespan_of(problem, result.schedule), result.makespan);
    EXPECT_GE(lower_bound(problem), bound_by_arithmetic(problem));
    EXPECT_LE(lower_bound(problem), result.makespan);
  }
}

TEST(Search, TakesALimitForEachRank) {
  SearchProblem problem = line(2, 4, 0);
  problem.limit = {1, 4};
  // Rank 0 has one microbatch at a time: F, F and I of rank 1, I, W; four times, the rest beside
  // it.
  expect_proved(problem, 4 * 5);
  problem.limit = {4, 1};
  EXPECT_LT(search(problem).makespan, 4 * 5);
}

TEST(Search, OfOneStageIsItsWork) { expect_proved(line(1, 5, 1), 15); }

TEST(Search, TakesTicksUpToTheGreatestThatItAllows) {
  SearchProblem problem = line(2, 3, 2);
  constexpr std::int64_t kLong = (std::int64_t{1} << 61) / (2 * 3 * 5);
  problem.model.stages = {{.forward = kLong, .backward_input = kLong, .backward_weight = kLong}};
  problem.model.link = kLong;
  SearchProblem same = problem;
  same.model = {.link = 1};
  expect_proved(problem, search(same).makespan * kLong);
  problem.model.link = kLong + 1;
  EXPECT_THROW(static_cast<void>(search(problem)), std::invalid_argument);
}

// Too much for a second, even more so for less.
TEST(Search, HasAScheduleAndABoundWhenItsTimeIsUp) {
  const SearchProblem problem = vee(8, 16, 8);
  for (const Duration time : {Duration(0), Duration(300ms), Duration::min()}) {
    const SearchResult result = search(problem, {.time = time});
    EXPECT_EQ(makespan_of(problem, result.schedule), result.makespan);
    EXPECT_LT(result.bound, result.makespan);
    EXPECT_GE(result.bound, lower_bound(problem));
  }
}

TEST(Search, EndsWhenItIsAskedTo) {
  std::stop_source source;
  source.request_stop();
  const SearchProblem problem = vee(8, 16, 8);
  const SearchResult result = search(problem, {.time = 24h, .stop = source.get_token()});
  EXPECT_EQ(makespan_of(problem, result.schedule), result.makespan);
  EXPECT_FALSE(result.is_proved());
}

TEST(Search, EndsWhenItsMemoryIsUsedUp) {
  const SearchProblem problem = vee(8, 16, 8);
  const SearchResult result = search(problem, {.time = 24h, .memory_bytes = std::size_t{1} << 20U});
  EXPECT_EQ(makespan_of(problem, result.schedule), result.makespan);
  EXPECT_FALSE(result.is_proved());
}

// The known kinds that keep to the limit are solutions; these are optima.
TEST(Search, ProvesThatKnownKindsAreOptimalWhereTheirMemoryIsAllowed) {
  for (const auto& [kind, problem] :
       {std::pair(Kind::kZbv, vee(16, 40, 32)), std::pair(Kind::kZeroBubble, line(24, 100, 24)),
        std::pair(Kind::kOneFOneB, line(24, 100, 24, /*split=*/false))}) {
    const Schedule known = make(kind, {.ranks = std::ranges::max(problem.rank_of_stage) + 1,
                                       .microbatches = problem.microbatches});
    expect_proved(problem, makespan(known).value());
  }
}

TEST(Search, IsNoWorseThanTheKindsThatKeepToTheLimit) {
  SearchProblem problem = vee(8, 32, 16);
  std::mt19937 random(3);
  for (int stage = 0; stage < 16; ++stage) {
    const auto time = [&] { return static_cast<std::int64_t>(100 + random() % 20); };
    if (stage == 0) problem.model.stages.clear();
    problem.model.stages.push_back(
        {.forward = time(), .backward_input = time(), .backward_weight = time()});
  }
  const Schedule known = make(Kind::kZbv, {.ranks = 8, .microbatches = 32});
  EXPECT_LE(search(problem, {.time = 50ms}).makespan, makespan(known, problem.model).value());
}

TEST(Search, MakesIAndWOfAKindsWholeBackward) {
  SearchProblem problem = vee(2, 4, 5);
  problem.model.stages = {{.forward = 5, .backward_input = 6, .backward_weight = 0}};
  // DualPipeV without its pairs, whose F would be sent later.
  expect_proved(problem, 99);
}

TEST(Search, SpreadsMicrobatchesWhereMemoryIsScarce) {
  // Half of what ZB-V wants. Without memory for states, what is left is the first solution.
  const SearchProblem problem = vee(8, 32, 8);
  const SearchResult result = search(problem, {.time = 24h, .memory_bytes = 0});
  EXPECT_EQ(makespan_of(problem, result.schedule), result.makespan);
  EXPECT_LE(10 * result.makespan, 11 * result.bound);
  // Without time, it is the first of the first solutions.
  EXPECT_GT(search(problem, {.time = Duration(0)}).makespan, result.makespan);
}

TEST(Search, OfLargeProblemsKeepsToLimitsThatAreHardlyEnough) {
  SearchProblem round = line(36, 60, 0);
  for (int stage = 0; stage < 36; ++stage) {
    round.rank_of_stage[static_cast<std::size_t>(stage)] = stage % 12;
  }
  for (const std::int64_t limit : {3, 4, 5, 8}) {
    round.limit = {limit};
    const SearchProblem folded = vee(16, 64, limit);
    for (const SearchProblem& problem : {round, folded}) {
      const SearchResult result = search(problem, {.time = Duration(0)});
      EXPECT_EQ(makespan_of(problem, result.schedule), result.makespan);
      EXPECT_LE(result.bound, result.makespan);
    }
  }
}

void expect_refused(const SearchProblem& problem, const std::string& why) {
  try {
    static_cast<void>(search(problem));
    ADD_FAILURE() << "not refused: " << why;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
  EXPECT_THROW(static_cast<void>(lower_bound(problem)), std::invalid_argument);
}

TEST(Search, RefusesWhatNoScheduleSolvesAndNumbersOutOfRange) {
  const SearchProblem good = line(3, 4, 2);
  const auto with = [&](auto&& change) {
    SearchProblem bad = good;
    change(bad);
    return bad;
  };
  expect_refused(with([](SearchProblem& p) { p.rank_of_stage.clear(); }), "no stage");
  expect_refused(with([](SearchProblem& p) { p.rank_of_stage[1] = -1; }), "on rank -1");
  expect_refused(with([](SearchProblem& p) {
                   p.rank_of_stage = {0, 2, 2};
                 }),
                 "rank 1 has no stage");
  expect_refused(with([](SearchProblem& p) { p.rank_of_stage[2] = 1'000'000'000; }),
                 "has no stage");
  expect_refused(with([](SearchProblem& p) { p.microbatches = 0; }), "no microbatch");
  expect_refused(with([](SearchProblem& p) { p.microbatches = 1 << 30; }), "2^22");
  expect_refused(with([](SearchProblem& p) { p.limit = {0}; }), "a limit of 0");
  expect_refused(with([](SearchProblem& p) { p.limit = {}; }), "0 limits for 3 ranks");
  expect_refused(with([](SearchProblem& p) { p.limit = {2, 2}; }), "2 limits for 3 ranks");
  expect_refused(with([](SearchProblem& p) {
                   p.rank_of_stage = {0, 1, 0};
                   p.limit = {1};
                 }),
                 "rank 0 has 2 stages and a limit of 1");
  expect_refused(with([](SearchProblem& p) { p.model.capacity = 1; }), "unbounded");
  expect_refused(with([](SearchProblem& p) { p.model.stages.resize(2); }), "2 stages");
  expect_refused(with([](SearchProblem& p) { p.model.stages[0].backward_weight = -1; }),
                 "negative");
  expect_refused(with([](SearchProblem& p) { p.model.link = -1; }), "negative");
  expect_refused(
      with([](SearchProblem& p) { p.model.link = std::numeric_limits<std::int64_t>::max() / 2; }),
      "too great");
}

}  // namespace
}  // namespace leat::pipeline
