// What is known of the kinds in closed form: how long they take, how many activations live, how
// many places their channels want. Every schedule of up to 6 ranks and 16 microbatches.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/pipeline/check.h"
#include "leat/pipeline/kinds.h"
#include "leat/pipeline/onnx_1f1b.h"
#include "leat/pipeline/simulate.h"

namespace leat::pipeline {
namespace {

struct Sizes {
  std::int64_t B = 0, R = 0, v = 0, f = 0, i = 0, w = 0;
  [[nodiscard]] std::int64_t fb() const { return f + i + w; }
  [[nodiscard]] std::int64_t g() const { return B / std::max<std::int64_t>(1, B / R); }
};
struct Formula {
  Kind kind;
  std::function<bool(const Sizes&)> holds;
  std::function<std::int64_t(const Sizes&)> makespan;
  std::function<std::int64_t(const Sizes&, std::int64_t r)> peak;
  bool peak_needs_condition = false;
};

bool ones(const Sizes& n) { return n.f == 1 && n.i == 1 && n.w == 1; }

const std::vector<Formula>& formulas() {
  const auto always = [](const Sizes&) { return true; };
  const auto filled = [](const Sizes& n) { return n.B >= n.R; };
  const auto one_way = [](const Sizes& n) { return (n.B + n.R - 1) * n.fb(); };
  const auto looped = [](const Sizes& n) { return (n.v * n.B + n.R - 1) * n.fb(); };
  using std::min;
  static const std::vector<Formula> all = {
      {Kind::kGpipe, always, one_way, [](const Sizes& n, auto) { return n.B; }},
      {Kind::kOneFOneB, always, one_way, [](const Sizes& n, auto r) { return min(n.B, n.R - r); }},
      {Kind::kOnnx1F1B, [](const Sizes& n) { return n.f <= n.i + n.w; }, one_way,
       [](const Sizes& n, auto r) {
         return min({n.B, n.R, 2 * (n.R - r) - 1});
       }},
      {Kind::kInterleaved1F1B, filled, looped,
       [](const Sizes& n, auto r) {
         return min(n.v * n.B, (n.v - 1) * n.g() + 2 * (n.R - r) - 1);
       }},
      {Kind::kLoopedBfs, filled, looped, [](const Sizes& n, auto) { return n.v * n.B; }},
      {Kind::kZeroBubble, [](const Sizes& n) { return n.B >= n.R && n.w <= n.f && n.w <= n.i; },
       [](const Sizes& n) { return n.v * n.B * n.fb() + (n.R - 1) * (n.f + n.i - n.w); },
       [](const Sizes& n, auto) {
         return min(n.v * n.B, (n.v - 1) * (n.v > 1 ? n.g() : 0) + n.R);
       }},
      {Kind::kZeroBubbleH2, [](const Sizes& n) { return n.B >= 2 * n.R - 1 && ones(n); },
       [](const Sizes& n) { return 3 * n.B + n.R - 1; },
       [](const Sizes& n, auto) { return 2 * n.R - 1; }, true},
      {Kind::kZbv, [](const Sizes& n) { return n.B >= 2 * n.R - 1 && ones(n); },
       [](const Sizes& n) { return 6 * n.B + n.R - 1; },
       [](const Sizes& n, auto) { return 2 * n.R; }, true},
      {Kind::kDualPipeV, [](const Sizes& n) { return n.B >= 2 * n.R && ones(n); },
       [](const Sizes& n) { return 6 * n.B + 2 * (n.R - 1); },
       [](const Sizes& n, auto) { return 2 * n.R + 1; }, true},
  };
  return all;
}

/// Calls f(order, sizes) for each order of a kind; times are 0. Stages per rank: up to 3.
template <class F>
void for_each_order(Kind kind, F&& f) {
  for (std::int32_t ranks = 1; ranks <= 6; ++ranks) {
    for (std::int32_t microbatches = 1; microbatches <= 16; ++microbatches) {
      for (std::int32_t depth = 1; depth <= 3; ++depth) {
        std::optional<Schedule> order;
        try {
          order = make(kind, {ranks, microbatches, depth});
        } catch (const std::invalid_argument&) {  // kinds_test.cpp looks at them
          continue;
        }
        SCOPED_TRACE(std::string(name(kind)) + " R=" + std::to_string(ranks) +
                     " B=" + std::to_string(microbatches) + " v=" + std::to_string(depth));
        f(*order, Sizes{.B = microbatches, .R = ranks, .v = depth});
      }
    }
  }
}

TEST(PipelineKindsFormulas, AKindTakesAsLongAsItsFormulaSays) {
  constexpr std::array<std::array<std::int64_t, 3>, 8> kTimes = {
      {{1, 1, 1}, {2, 3, 1}, {3, 1, 1}, {1, 2, 3}, {5, 5, 4}, {7, 2, 2}, {4, 1, 1}, {2, 9, 0}}};
  for (const Formula& formula : formulas()) {
    int compared = 0;
    for_each_order(formula.kind, [&](const Schedule& order, Sizes n) {
      const Schedule lowered = lower(order);
      for (const auto& [forward, input, weight] : kTimes) {
        n.f = forward, n.i = input, n.w = weight;
        if (!formula.holds(n)) continue;
        ASSERT_EQ(makespan(lowered, {.stages = {{forward, input, weight}}}), formula.makespan(n))
            << forward << ' ' << input << ' ' << weight;
        ++compared;
      }
    });
    EXPECT_GE(compared, 50) << name(formula.kind);
  }
}

TEST(PipelineKindsFormulas, ARankHoldsAsManyActivationsAsItsFormulaSays) {
  for (const Formula& formula : formulas()) {
    int compared = 0;
    for_each_order(formula.kind, [&](const Schedule& order, Sizes n) {
      n.f = n.i = n.w = 1;
      if (formula.peak_needs_condition && !formula.holds(n)) return;
      std::vector<std::int64_t> expected;
      for (std::int64_t rank = 0; rank < n.R; ++rank) expected.push_back(formula.peak(n, rank));
      ASSERT_EQ(peak_activations(order), expected);
      ++compared;
    });
    EXPECT_GE(compared, 50) << name(formula.kind);
  }
}

TEST(PipelineKindsFormulas, EveryOrderRuns) {
  for (const Kind kind : kinds()) {
    for_each_order(kind, [](const Schedule& order, const Sizes&) {
      const CheckResult result = check(order);
      ASSERT_TRUE(result.findings.empty()) << to_string(result.findings);
      ASSERT_TRUE(result.capacities.to_run.has_value());
    });
  }
}

TEST(PipelineKindsFormulas, ChannelsWantNoPlaceForGpipeAndOneForTheKindsThatAlternate) {
  using Places = std::pair<std::optional<int>, std::optional<int>>;
  for (const Formula& formula : formulas()) {
    if (formula.kind == Kind::kInterleaved1F1B || formula.kind == Kind::kLoopedBfs) continue;
    for_each_order(formula.kind, [&](const Schedule& order, const Sizes& n) {
      if (n.R < 2 || n.B < 2 || (formula.kind == Kind::kZeroBubble && n.v > 1)) return;
      const Capacities places = capacities(lower(order));
      const int one = formula.kind == Kind::kGpipe ? 0 : 1;
      ASSERT_EQ(Places(places.to_run, places.full_speed), Places(one, one));
    });
  }
}

TEST(PipelineKindsFormulas, MorePlacesMakeTheLoopedKindsFaster) {
  const auto at = [](const Schedule& order, int capacity) {
    return makespan(order, {.capacity = capacity});
  };
  const Schedule interleaved = make(Kind::kInterleaved1F1B, {4, 7, 2});
  EXPECT_EQ(at(interleaved, 1), 57);
  EXPECT_EQ(at(interleaved, 2), 54);
  EXPECT_EQ(at(interleaved, 3), 51);
  EXPECT_EQ(makespan(interleaved), 51);
  EXPECT_EQ(capacities(lower(interleaved)).full_speed, 3);
  const Schedule breadth_first = make(Kind::kLoopedBfs, {2, 8, 2});
  EXPECT_EQ(at(breadth_first, 3), std::nullopt);
  EXPECT_EQ(at(breadth_first, 4), 57);
  EXPECT_EQ(at(breadth_first, 5), 54);
  EXPECT_EQ(at(breadth_first, 6), 51);
  EXPECT_EQ(makespan(breadth_first), 51);
  const Capacities places = capacities(lower(breadth_first));
  EXPECT_EQ(places.to_run, 4);
  EXPECT_EQ(places.full_speed, 6);
}

TEST(PipelineKindsFormulas, OnnxRuntimesFullTablesRunWithoutPlaces) {
  for (std::int32_t microbatches = 1; microbatches <= 12; ++microbatches) {
    for (std::int32_t stages = 1; stages <= 8; ++stages) {
      const CheckResult result = check(onnx_1f1b(microbatches, stages).full, {.capacity = 0});
      ASSERT_TRUE(result.findings.empty())
          << microbatches << ' ' << stages << ' ' << to_string(result.findings);
    }
  }
}

}  // namespace
}  // namespace leat::pipeline
