// Gradients in memory that the CPU does not reach: they go through pinned slots.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "tests/comm/support/far_device.h"
#include "tests/comm/support/far_memory.h"
#include "tests/comm/support/far_training.h"
#include "tests/comm/support/ranks.h"
#include "tests/comm/support/training.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace exchange_staged_test {

using namespace std::chrono_literals;
using support::FarMemory;
using support::Plan;

class ExchangeStaged : public support::RankTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, ExchangeStaged, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

void train(Communicator& me, const Plan& plan, const gpu::HostModel& model) {
  support::train_far(me, plan, support::open_far(model), /*syncs=*/false);
}

void train_seeds(const support::RankPlace& place, std::uint32_t seeds,
                 const gpu::HostModel& model) {
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "seed " << seed);
    const int ranks = 1 + static_cast<int>(seed % 4);
    Plan plan = support::random_plan(seed, ranks);
    // Where nothing was awaited, no stream tells when memory is free: the first step gives all.
    for (auto& given : plan.steps[0].is_given) given.assign(given.size(), true);
    plan.steps[0].samples.assign(static_cast<std::size_t>(ranks), 3);
    place.run(ranks, {}, [&](Communicator& me) { train(me, plan, model); });
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(ExchangeStaged, ResultsAreThoseOfAPlainLoop) {
  train_seeds(GetParam(), leat::support::rounds(60), {});
}

TEST_P(ExchangeStaged, ResultsAreTheSameWhereCopiesTakeTime) {
  train_seeds(GetParam(), leat::support::rounds(30),
              {.h2d_bandwidth = 1e9, .d2h_bandwidth = 2e9, .copy_latency = 1us});
}

// More pieces than calls have room: copies that have run at once come back without a call.
TEST_P(ExchangeStaged, ThousandsOfPiecesAreUnderWayAtOnce) {
  on_ranks(2, [](Communicator& me) {
    Plan plan{.options = {.partition_bytes = 4, .credit_bytes = ~std::size_t{0}},
              .tensors = {{DType::kFloat32, 3'000}},
              .steps = {{.samples = {1, 2}, .is_given = {{true}, {true}}}}};
    train(me, plan, {});
  });
}

TEST_P(ExchangeStaged, ABroadcastMakesAllRanksStartAlike) {
  on_ranks(3, [](Communicator& me) {
    const gpu::Device device = support::open_far();
    Plan plan{.options = {.device = device},
              .tensors = {{DType::kFloat32, 5}, {DType::kInt64, 0}, {DType::kFloat16, 9}}};
    FarMemory memory(device, plan);
    for (std::size_t i = 0; i < 3; ++i) {
      memory.write(i, support::gradient_of(plan, me.rank(), 0, i));
    }
    memory.stream.sync();
    GradientExchange exchange(me, {}, plan.options);
    exchange.broadcast(memory.gradients, 1);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(memory.read(i), support::gradient_of(plan, 1, 0, i));
    }
  });
}

TEST_P(ExchangeStaged, AStreamOfSuchADeviceWithoutTheOptionIsRefused) {
  on_ranks(1, [](Communicator& me) {
    const gpu::Device device = support::open_far();
    const gpu::DeviceBuffer buffer(device, 4);
    const gpu::Stream stream(device);
    GradientExchange exchange(me, {{"w", buffer.span()}});
    exchange.begin_step(1);
    EXPECT_THROW(exchange.ready(0, stream), std::invalid_argument);
    exchange.end_backward();
    EXPECT_FALSE(exchange.await(0));
  });
}

// The device of rank 1 fails at each of its operations in turn.
TEST_P(ExchangeStaged, ADeviceThatFailsIsAnErrorOnEveryRank) {
  for (std::uint64_t at = 1; at <= 14; ++at) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "operation " << at);
    on_ranks(2, [&](Communicator& me) {
      gpu::HostModel model;
      if (me.rank() == 1) model.faults.lost_at = at;
      Plan plan{.options = {.partition_bytes = 8, .credit_bytes = 16},
                .tensors = {{DType::kFloat32, 6}},
                .steps = {}};
      for (int i = 0; i < 6; ++i) {
        plan.steps.push_back({.samples = {1, 2}, .is_given = {{true}, {true}}});
      }
      try {
        train(me, plan, model);
        ADD_FAILURE() << "no error on rank " << me.rank();
      } catch (const CommError& error) {
        EXPECT_EQ(error.peer(), 1) << error.what();
      } catch (const gpu::GpuError&) {
        EXPECT_EQ(me.rank(), 1);
      }
    });
  }
}

}  // namespace exchange_staged_test
}  // namespace leat::comm
