// Ranks that end in the middle of a step: every other rank is told at once, nothing hangs, and no
// memory is used any more.
#include "tests/comm/support/endings.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>

#include "leat/comm/gradient_exchange.h"
#include "leat/csp/scheduler.h"
#include "tests/comm/support/far_device.h"
#include "tests/comm/support/far_memory.h"
#include "tests/comm/support/ranks.h"
#include "tests/comm/support/training.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace exchange_endings_test {

using namespace std::chrono_literals;
using support::Ending;
using support::Endings;
using support::Plan;

/// A plan with gradients, so that ranks wait for each other.
Plan plan_of(std::uint32_t seed, int ranks) {
  Plan plan = support::random_plan(seed, ranks);
  while (plan.tensors.empty()) plan = support::random_plan(seed += 10'000, ranks);
  return plan;
}

/// What one rank does. Before each call it may compute, and be lost.
struct Trainer {
  Communicator& me;
  Plan plan;
  bool is_staged = false;
  std::function<bool()> goes_on;           // before each call; false: leave
  std::atomic<bool>* has_given = nullptr;  // everything of the last step

  bool run() {
    const auto rank = static_cast<std::size_t>(me.rank());
    std::optional<gpu::Device> device;
    std::optional<support::FarMemory> far;
    support::Memory near(plan);
    if (is_staged) {
      device = support::open_far({.h2d_bandwidth = 1e7, .d2h_bandwidth = 1e7});
      plan.options.device = device;
      far.emplace(*device, plan);
    }
    if (!goes_on()) return false;
    GradientExchange exchange(me, far ? far->gradients : near.gradients, plan.options);
    for (std::size_t step = 0; step < plan.steps.size(); ++step) {
      const Plan::Step& what = plan.steps[step];
      if (!goes_on()) return false;
      exchange.begin_step(what.samples[rank]);
      if (step + 1 == plan.steps.size() && what.samples[rank] == 0) *has_given = true;
      for (std::size_t i = plan.tensors.size(); i-- > 0;) {
        if (!goes_on()) return false;
        if (!what.is_given[rank][i]) continue;
        if (far) {
          exchange.ready(i, far->stream);
        } else {
          exchange.ready(i);
        }
      }
      exchange.end_backward();
      if (step + 1 == plan.steps.size()) *has_given = true;
      for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
        if (!goes_on()) return false;
        if (far) {
          exchange.await(i, far->stream);
        } else {
          exchange.await(i);
        }
      }
    }
    return true;
  }
};

void lose_a_rank(std::uint32_t seed) {
  std::mt19937 random(seed);
  support::Loss loss{.ranks = 2 + static_cast<int>(random() % 3)};
  loss.victim = static_cast<std::uint32_t>(random()) % static_cast<std::uint32_t>(loss.ranks);
  loss.way = static_cast<support::Way>(seed % 3);
  loss.at = std::chrono::nanoseconds(random() % 1'500'000);
  loss.before_call = static_cast<std::uint32_t>(random() % 50);
  const bool is_staged = random() % 2 == 0;
  loss.delta = random() % 2 == 0 ? 0us : 3us;
  const Plan plan = plan_of(seed, loss.ranks);
  Endings endings;
  support::lose_a_rank(seed, loss, endings,
                       [&](Communicator& me, const support::Fate& fate, auto& has_given) {
                         return Trainer{me, plan, is_staged, fate.goes_on, &has_given}.run();
                       });
  for (std::uint32_t rank = 0; rank < static_cast<std::uint32_t>(loss.ranks); ++rank) {
    const Ending ending = endings.of[rank];
    if (endings.of[loss.victim] == Ending::kDone) {
      EXPECT_EQ(ending, Ending::kDone) << "rank " << rank;
    } else if (rank == loss.victim) {
      EXPECT_TRUE(ending == Ending::kLost || ending == Ending::kCancelled);
    } else {
      EXPECT_TRUE(ending == Ending::kMismatch || ending == Ending::kError ||
                  (ending == Ending::kDone && endings.has_given[loss.victim]))
          << "rank " << rank << ": " << static_cast<int>(ending);
    }
  }
}

class ExchangeEndings : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Tenth, ExchangeEndings, testing::Range(0U, 10U));

// 1,000 points in all: by an exception, by leaving, by cancellation.
TEST_P(ExchangeEndings, ALostRankIsAnErrorOnEveryOtherAtOnce) {
  for (std::uint32_t i = 0; i < leat::support::rounds(100); ++i) {
    const std::uint32_t seed = 100 * GetParam() + i;
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "seed " << seed);
    lose_a_rank(seed);
    if (testing::Test::HasFailure()) return;
  }
}

class ExchangeEndingsInPlaces : public support::RankTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, ExchangeEndingsInPlaces, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

TEST_P(ExchangeEndingsInPlaces, ALostRankIsAnErrorOnEveryOther) {
  for (std::uint32_t seed = 0; seed < leat::support::rounds(100); ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const int ranks = 2 + static_cast<int>(random() % 3);
    const int victim = static_cast<int>(random() % static_cast<std::uint32_t>(ranks));
    const auto before_call = static_cast<std::uint32_t>(random() % 40);
    const Plan plan = plan_of(seed, ranks);
    Endings endings;
    on_ranks(ranks, [&](Communicator& me) {
      const auto rank = static_cast<std::size_t>(me.rank());
      std::uint32_t calls = 0;
      support::note(endings.of[rank], [&] {
        return Trainer{me, plan, seed % 2 == 0,
                       [&] { return me.rank() != victim || calls++ != before_call; },
                       &endings.has_given[rank]}
            .run();
      });
    });
    const auto lost = static_cast<std::size_t>(victim);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      const bool may_be_done = endings.of[lost] == Ending::kDone || endings.has_given[lost];
      EXPECT_TRUE(rank == lost || endings.of[rank] == Ending::kMismatch ||
                  (endings.of[rank] == Ending::kDone && may_be_done));
      if (endings.of[lost] == Ending::kDone) {
        EXPECT_EQ(endings.of[rank], Ending::kDone);
      }
    }
  }
}

// Rank 0 has awaited all, and leaves, while its peer's copies back from the slots are under way.
TEST_P(ExchangeEndingsInPlaces, ARankThatHasAllItsResultsMayLeave) {
  on_ranks(3, [](Communicator& me) {
    const Plan plan{.options = {.partition_bytes = 64},
                    .tensors = {{DType::kFloat32, 100}, {DType::kFloat32, 300}},
                    .steps = {{.samples = {1, 1, 1}, .is_given = {3, {true, true}}}}};
    std::atomic<bool> has_given = false;
    Trainer trainer{me, plan, me.rank() != 0, [] { return true; }, &has_given};
    EXPECT_TRUE(trainer.run());
    me.barrier().await();
  });
}

TEST_P(ExchangeEndingsInPlaces, AnExchangeThatWasNeverUsedEndsQuietly) {
  on_ranks([](Communicator& me) {
    float data = 0;
    { const GradientExchange exchange(me, {{"w", gpu::DeviceSpan(&data, 4)}}); }
    me.barrier().await();
  });
}

}  // namespace exchange_endings_test
}  // namespace leat::comm
