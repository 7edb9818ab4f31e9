// Exchanges beside each other and beside direct collectives, and beside fibers that compute.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace exchange_together_test {

using namespace std::chrono_literals;

constexpr int kSteps = 20;

/// Trains, and checks the sums.
void train(GradientExchange& exchange, std::vector<float>& data, int ranks, float value) {
  for (int step = 0; step < kSteps; ++step) {
    data.assign(data.size(), value);
    exchange.begin_step(1);
    exchange.ready(0);
    exchange.end_backward();
    EXPECT_TRUE(exchange.await(0));
    ASSERT_EQ(data, std::vector<float>(data.size(), value * static_cast<float>(ranks)));
  }
}

/// Two exchanges of one communicator and direct collectives, each on a thread or fiber of its own,
/// started by `together`.
void use_all(Communicator& me,
             const std::function<void(const std::vector<std::function<void()>>&)>& together) {
  std::vector<float> first(1'000);
  std::vector<float> second(50);
  GradientExchange one(me, {{"w", gpu::DeviceSpan(first.data(), 4'000)}},
                       {.weights = Weights::kOnes, .partition_bytes = 400, .credit_bytes = 1'000});
  GradientExchange other(me, {{"w", gpu::DeviceSpan(second.data(), 200)}},
                         {.policy = Policy::kBucketed, .weights = Weights::kOnes});
  together({[&] { train(one, first, me.size(), 1); }, [&] { train(other, second, me.size(), 3); },
            [&] {
              for (int i = 0; i < kSteps; ++i) {
                std::vector<float> direct(30'000, 5);
                me.all_reduce(direct).await();
                ASSERT_EQ(direct, std::vector<float>(30'000, 5 * static_cast<float>(me.size())));
              }
            }});
}

void on_threads(const std::vector<std::function<void()>>& all) {
  std::vector<std::jthread> threads;
  for (const auto& one : all) threads.emplace_back(one);
}

void on_fibers(const std::vector<std::function<void()>>& all) {
  TaskGroup group;
  for (const auto& one : all) group.go(one);
  group.wait();
}

class ExchangesTogether : public support::RankTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, ExchangesTogether, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

TEST_P(ExchangesTogether, OfTwoThreadsWorkBesideDirectCollectives) {
  on_ranks(3, [](Communicator& me) { use_all(me, on_fiber() ? on_fibers : on_threads); });
}

TEST_P(ExchangesTogether, WorkWhereNoticesAndPiecesTakeTime) {
  OpenOptions options;
  options.link = {.bandwidth = 1e9, .alpha = 1us, .delta = 2us, .enabled = true};
  on_ranks(
      3, [](Communicator& me) { use_all(me, on_fiber() ? on_fibers : on_threads); }, options);
}

// The leader's trainer, and then all of them, spin until every piece has come. If the exchange ran
// on their worker, no piece would.
TEST(ExchangeProgress, FibersThatComputeWithoutYieldingHoldUpNoPiece) {
  constexpr int kRanks = 3;
  std::vector<Communicator> ranks = open("local:3");
  run(
      [&] {
        std::vector<std::vector<float>> data(kRanks, std::vector<float>(100, 1));
        std::vector<std::unique_ptr<GradientExchange>> exchanges(kRanks);
        const auto each = [&](const std::function<void(std::size_t)>& f) {
          TaskGroup group;
          for (std::size_t rank = 0; rank < kRanks; ++rank) group.go([&f, rank] { f(rank); });
          group.wait();
        };
        each([&](std::size_t rank) {
          exchanges[rank] = std::make_unique<GradientExchange>(
              ranks[rank], std::vector<Gradient>{{"w", gpu::DeviceSpan(data[rank].data(), 400)}},
              ExchangeOptions{.weights = Weights::kOnes, .partition_bytes = 4, .credit_bytes = 8});
        });
        for (std::uint64_t step = 1; step <= 3; ++step) {
          each([&](std::size_t rank) {
            data[rank].assign(100, 1);
            exchanges[rank]->begin_step(1);
            exchanges[rank]->ready(0);
            exchanges[rank]->end_backward();
            if (rank + 1 < kRanks) return;  // the last one has given its part: nobody yields now
            for (const auto& one : exchanges) {
              while (one->stats().pieces < 100 * step) {
              }
            }
          });
          each([&](std::size_t rank) {
            EXPECT_TRUE(exchanges[rank]->await(0));
            EXPECT_EQ(data[rank], std::vector<float>(100, 3));
          });
        }
        each([&](std::size_t rank) { exchanges[rank].reset(); });
      },
      {.workers = 1});
}

}  // namespace exchange_together_test
}  // namespace leat::comm
