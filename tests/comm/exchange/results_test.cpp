// Results: bit for bit those of a plain loop, for every policy, partition, credit and number of
// ranks, wherever the ranks run.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "tests/comm/support/ranks.h"
#include "tests/comm/support/training.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace exchange_results_test {

using namespace std::chrono_literals;
using support::Memory;
using support::Plan;

class ExchangeResults : public support::RankTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, ExchangeResults, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

void train(Communicator& me, const Plan& plan) {
  const auto rank = static_cast<std::size_t>(me.rank());
  Memory memory(plan);
  GradientExchange exchange(me, memory.gradients, plan.options);
  std::mt19937 random(plan.seed + static_cast<std::uint32_t>(rank));
  for (std::size_t step = 0; step < plan.steps.size(); ++step) {
    const Plan::Step& what = plan.steps[step];
    for (std::size_t i = 0; i < memory.bytes.size(); ++i) {
      std::ranges::copy(support::gradient_of(plan, me.rank(), step, i), memory.bytes[i].begin());
    }
    exchange.begin_step(what.samples[rank]);
    for (const std::size_t i : support::shuffled(memory.bytes.size(), random)) {
      if (what.is_given[rank][i]) exchange.ready(i);
    }
    exchange.end_backward();
    for (const std::size_t i : support::shuffled(memory.bytes.size(), random)) {
      const bool has_result = exchange.await(i);
      EXPECT_EQ(has_result, support::has_result(plan, step, i));
      EXPECT_TRUE(memory.bytes[i] == (has_result ? support::result_of(plan, step, i)
                                                 : support::gradient_of(plan, me.rank(), step, i)))
          << "rank " << rank << ", step " << step << ", tensor " << i;
      EXPECT_FALSE(exchange.await(i)) << "it was awaited";
    }
  }
  EXPECT_EQ(exchange.stats().steps, plan.steps.size());
}

void train_seeds(const support::RankPlace& place, std::uint32_t seeds,
                 const OpenOptions& options = {}) {
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "seed " << seed);
    const int ranks = 1 + static_cast<int>(seed % 5);
    const Plan plan = support::random_plan(seed, ranks);
    place.run(ranks, options, [&](Communicator& me) { train(me, plan); });
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(ExchangeResults, AreThoseOfAPlainLoop) {
  train_seeds(GetParam(), leat::support::rounds(150));
}

TEST_P(ExchangeResults, AreTheSameWhereCommunicationTakesTime) {
  OpenOptions options;
  options.link = {.bandwidth = 1e9, .alpha = 1us, .delta = 500ns, .enabled = true};
  train_seeds(GetParam(), leat::support::rounds(50), options);
}

// The mean over a batch of B samples that P ranks share, if P does not divide B, and if B < P.
TEST_P(ExchangeResults, AreTheMeanOfABatchOfAnySize) {
  for (const std::uint64_t batch : {1U, 3U, 4U, 7U, 10U}) {
    for (const int ranks : {1, 2, 3, 4}) {
      on_ranks(ranks, [&](Communicator& me) {
        const auto count = static_cast<std::uint64_t>(ranks);
        const auto rank = static_cast<std::uint64_t>(me.rank());
        const std::uint64_t first = batch * rank / count;
        const std::uint64_t second = batch * (rank + 1) / count;
        double sum = 0;  // sample s has the gradient s
        for (std::uint64_t s = first; s < second; ++s) sum += static_cast<double>(s);
        std::vector<double> gradient = {sum / static_cast<double>(second - first)};
        GradientExchange exchange(
            me, {{"w", gpu::DeviceSpan(gradient.data(), sizeof(double)), DType::kFloat64}});
        exchange.begin_step(second - first);
        if (second > first) exchange.ready(0);
        exchange.end_backward();
        EXPECT_TRUE(exchange.await(0));
        EXPECT_NEAR(gradient[0], static_cast<double>(batch - 1) / 2, 1e-6);
      });
    }
  }
}

TEST_P(ExchangeResults, OfMicroStepsAreExchangedOnce) {
  on_ranks(3, [](Communicator& me) {
    std::vector<float> gradient(10);
    GradientExchange exchange(me, {{"w", gpu::DeviceSpan(gradient.data(), 40)}},
                              {.weights = Weights::kOnes});
    for (int step = 1; step <= 3; ++step) {
      gradient.assign(10, 0);
      exchange.begin_step(8);
      for (int micro = 0; micro < 4; ++micro) {
        for (float& one : gradient) one += static_cast<float>(step);
      }
      exchange.ready(0);
      exchange.end_backward();
      exchange.await_all();
      EXPECT_EQ(gradient, std::vector<float>(10, static_cast<float>(12 * step)));
    }
    EXPECT_EQ(exchange.stats().pieces, 3U);
  });
}

// In a bucket that is exchanged for the other gradient.
TEST_P(ExchangeResults, WhatARankDoesNotGiveLeavesMinusZeroAsItIs) {
  on_ranks(2, [](Communicator& me) {
    std::vector<float> one = {-0.0F, 1};
    std::vector<float> other = {2};
    GradientExchange exchange(
        me, {{"one", gpu::DeviceSpan(one.data(), 8)}, {"other", gpu::DeviceSpan(other.data(), 4)}},
        {.policy = Policy::kBucketed, .weights = Weights::kOnes});
    exchange.begin_step(1);
    if (me.rank() == 0) exchange.ready(0);
    exchange.ready(1);
    exchange.end_backward();
    exchange.await_all();
    EXPECT_EQ(one, (std::vector<float>{0, 1}));
    EXPECT_TRUE(std::signbit(one[0]));
    EXPECT_EQ(other, std::vector<float>{4});
  });
}

TEST_P(ExchangeResults, ABroadcastMakesAllRanksStartAlike) {
  on_ranks(3, [](Communicator& me) {
    std::vector<float> parameter(5, static_cast<float>(me.rank()));
    std::vector<std::uint8_t> buffer(3, static_cast<std::uint8_t>(me.rank()));
    GradientExchange exchange(me, {});
    exchange.broadcast(
        std::vector<Gradient>{{"weights", gpu::DeviceSpan(parameter.data(), 20)},
                              {"mask", gpu::DeviceSpan(buffer.data(), 3), DType::kUint8}},
        2);
    EXPECT_EQ(parameter, std::vector<float>(5, 2));
    EXPECT_EQ(buffer, std::vector<std::uint8_t>(3, 2));
  });
}

}  // namespace exchange_results_test
}  // namespace leat::comm
