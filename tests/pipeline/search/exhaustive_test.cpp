// search() against a search that tries everything: tick by tick, each free rank begins any action
// that it can begin, or none. No bound, no dominance, no order of what to look at.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "leat/pipeline/search.h"
#include "tests/pipeline/search/makespan_of.h"

namespace leat::pipeline {
namespace {

// How many F, I (or B) and W of each stage have begun, S each; how long each rank still computes;
// how long each value of F, then each of I, takes to arrive.
using Moment = std::string;
using Moments = std::unordered_set<Moment>;

class Exhaustive {
 public:
  explicit Exhaustive(const SearchProblem& problem)
      : problem_(problem),
        stages_(problem.rank_of_stage.size()),
        ranks_(static_cast<std::size_t>(std::ranges::max(problem.rank_of_stage)) + 1),
        count_(static_cast<std::size_t>(problem.microbatches)),
        has_instants_(std::ranges::any_of(problem.model.stages, [](const StageCost& cost) {
          return cost.forward * cost.backward_input * cost.backward_weight == 0;
        })) {}

  int makespan() {
    Moments now = {Moment(3 * stages_ + ranks_ + 2 * stages_ * count_, '\0')};
    for (int tick = 0;; ++tick) {
      // After an action that takes no time, another may begin.
      for (bool again = true; again;) {
        const std::size_t before = now.size();
        for (std::size_t rank = 0; rank < ranks_; ++rank) begin_on(rank, now);
        again = has_instants_ && now.size() != before;
      }
      Moments later;
      for (Moment moment : now) {
        if (is_end(moment)) return tick;
        for (std::size_t i = 3 * stages_; i < moment.size(); ++i) {
          moment[i] = static_cast<char>(std::max(0, moment[i] - 1));
        }
        later.insert(moment);
      }
      now = later;
    }
  }

 private:
  [[nodiscard]] std::size_t busy(std::size_t rank) const { return 3 * stages_ + rank; }
  [[nodiscard]] std::size_t value(std::size_t which, std::size_t stage, int k) const {
    return 3 * stages_ + ranks_ + (which * stages_ + stage) * count_ + static_cast<std::size_t>(k);
  }
  [[nodiscard]] std::int64_t link(std::size_t a, std::size_t b) const {
    return problem_.rank_of_stage[a] == problem_.rank_of_stage[b] ? 0 : problem_.model.link;
  }
  [[nodiscard]] bool is_end(const Moment& moment) const {
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      if (moment[(problem_.split ? 2 : 1) * stages_ + stage] < problem_.microbatches) return false;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (moment[busy(rank)] > 0) return false;
    }
    return true;
  }
  [[nodiscard]] int alive(const Moment& moment, std::size_t rank) const {
    int sum = 0;
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      if (problem_.rank_of_stage[stage] != static_cast<int>(rank)) continue;
      sum += moment[stage] - moment[(problem_.split ? 2 : 1) * stages_ + stage];
    }
    return sum;
  }
  // 0: F; 1: I or B; 2: W.
  [[nodiscard]] bool can_begin(const Moment& moment, std::size_t which, std::size_t stage) const {
    const int k = moment[which * stages_ + stage];
    if (k == problem_.microbatches) return false;
    const auto has = [&](std::size_t of, std::size_t at) {
      return moment[of * stages_ + at] > k && moment[value(of, at, k)] == 0;
    };
    const auto rank = static_cast<std::size_t>(problem_.rank_of_stage[stage]);
    switch (which) {
      case 0:
        return alive(moment, rank) <
                   (problem_.limit.size() == 1 ? problem_.limit[0] : problem_.limit[rank]) &&
               (stage == 0 || has(0, stage - 1));
      case 1: return stage + 1 == stages_ ? has(0, stage) : has(1, stage + 1);
      default: return problem_.split && moment[stages_ + stage] > k;
    }
  }
  void begin_on(std::size_t rank, Moments& now) const {
    std::vector<Moment> begun;
    for (const Moment& moment : now) {
      if (moment[busy(rank)] > 0) continue;
      for (std::size_t which = 0; which < 3; ++which) {
        for (std::size_t stage = 0; stage < stages_; ++stage) {
          if (problem_.rank_of_stage[stage] != static_cast<int>(rank)) continue;
          if (!can_begin(moment, which, stage)) continue;
          const StageCost& cost = problem_.model.of(static_cast<std::int32_t>(stage));
          std::int64_t takes = which == 0 ? cost.forward : cost.backward_weight;
          if (which == 1) takes = cost.backward_input + (problem_.split ? 0 : takes);
          Moment next = moment;
          const int k = next[which * stages_ + stage]++;
          next[busy(rank)] = static_cast<char>(takes);
          if (which == 0) {
            const std::int64_t way = stage + 1 < stages_ ? link(stage, stage + 1) : 0;
            next[value(0, stage, k)] = static_cast<char>(takes + way);
          } else if (which == 1) {
            const std::int64_t way = stage > 0 ? link(stage - 1, stage) : 0;
            next[value(1, stage, k)] = static_cast<char>(takes + way);
          }
          begun.push_back(next);
        }
      }
    }
    now.insert(begun.begin(), begun.end());
  }

  const SearchProblem& problem_;
  std::size_t stages_;
  std::size_t ranks_;
  std::size_t count_;
  bool has_instants_;  // some action takes no time
};

// A small problem: uneven times from 0 or 1 up, links, limits, split and unsplit.
SearchProblem problem_of(const std::vector<int>& placement, int microbatches, unsigned seed) {
  std::mt19937 random(seed);
  const auto from_to = [&](int low, int high) {
    return static_cast<int>(low +
                            static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
  };
  SearchProblem problem;
  problem.rank_of_stage = placement;
  problem.microbatches = microbatches;
  problem.split = from_to(0, 3) > 0;
  const int least = from_to(0, 3) == 0 ? 0 : 1;
  const int most = from_to(1, 3);
  problem.model.stages.clear();
  for (std::size_t stage = 0; stage < placement.size(); ++stage) {
    problem.model.stages.push_back({.forward = from_to(least, most),
                                    .backward_input = from_to(least, most),
                                    .backward_weight = from_to(least, most)});
  }
  problem.model.link = from_to(0, 2);
  for (int rank = 0; rank <= std::ranges::max(placement); ++rank) {
    problem.limit.push_back(std::ranges::count(placement, rank) + from_to(0, 2));
  }
  return problem;
}

void expect_the_same(const std::vector<int>& placement, int microbatches, unsigned seed) {
  const SearchProblem problem = problem_of(placement, microbatches, seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  const SearchResult result = search(problem);
  const int best = Exhaustive(problem).makespan();
  EXPECT_EQ(result.makespan, best);
  EXPECT_EQ(result.bound, best);
  EXPECT_EQ(makespan_of(problem, result.schedule), best);
  EXPECT_LE(lower_bound(problem), best);
}

class SearchOf : public testing::TestWithParam<std::vector<int>> {};

TEST_P(SearchOf, SmallProblemsFindsAndProvesWhatTryingEverythingFinds) {
  const int most = GetParam().size() > 3 ? 2 : GetParam().size() > 2 ? 3 : 4;
  for (unsigned seed = 0; seed < 10; ++seed) {
    expect_the_same(GetParam(), 2 + static_cast<int>(seed) % (most - 1), seed);
  }
}

// In most problems, it makes no difference.
TEST(SearchOfSmallProblems, ComparesTheArrivalsOfValuesUnderWay) {
  for (const unsigned seed : {11U, 20U, 60U}) expect_the_same({0, 0, 1}, 3, seed);
}

TEST(SearchOfSmallProblems, WaitsForWhatBeginsLaterAndMattersMore) {
  for (const unsigned seed : {25U, 45U, 139U, 151U}) expect_the_same({0, 1, 0}, 2, seed);
}

TEST(SearchOfSmallProblems, CountsWhatIsPostponedBeyondTheTargetAsABound) {
  expect_the_same({0, 1, 0}, 4, 274);
}

INSTANTIATE_TEST_SUITE_P(Placements, SearchOf,
                         testing::Values(std::vector{0}, std::vector{0, 1}, std::vector{0, 1, 2},
                                         std::vector{0, 1, 0}, std::vector{0, 0, 1},
                                         std::vector{0, 1, 1, 0}, std::vector{0, 1, 0, 1}));

}  // namespace
}  // namespace leat::pipeline
