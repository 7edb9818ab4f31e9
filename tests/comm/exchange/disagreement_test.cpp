// Ranks that disagree, and ranks that are late: an error on every rank.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/csp/scheduler.h"
#include "tests/comm/support/files.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace exchange_disagreement_test {

using namespace std::chrono_literals;
using leat::support::elapsed;
using support::in_virtual_time;

class ExchangeDisagreement : public support::RankTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, ExchangeDisagreement, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

/// The gradients of one rank.
struct Two {
  float a[4] = {};
  float b[3] = {};
  std::vector<Gradient> gradients = {{"a", gpu::DeviceSpan(a, 16)}, {"b", gpu::DeviceSpan(b, 12)}};
};

void expect_mismatch(const std::function<void()>& call, const std::string& tensor,
                     const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown: " << part;
  } catch (const CommMismatch& error) {
    EXPECT_EQ(error.peer(), 2) << error.what();
    EXPECT_EQ(error.tensor(), tensor) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST_P(ExchangeDisagreement, OfOptionsIsAMismatchOnEveryRank) {
  const std::vector<std::pair<ExchangeOptions, std::string>> others = {
      {{.policy = Policy::kFifo}, "policy"},
      {{.urgency = Urgency::kAwaited}, "urgency"},
      {{.weights = Weights::kOnes}, "weights"},
      {{.synchronous = true}, "synchronous 0 on rank 0, synchronous 1 on rank 2"},
      {{.partition_bytes = 4}, "partition_bytes 4194304 on rank 0, partition_bytes 4 on rank 2"},
      {{.credit_bytes = 77}, "credit_bytes 77 on rank 2"},
      {{.bucket_bytes = {5}}, "bucket_bytes"},
  };
  for (const auto& [options, part] : others) {
    on_ranks(3, [&, &other = options, &said = part](Communicator& me) {
      Two mine;
      expect_mismatch(
          [&] { GradientExchange(me, mine.gradients, me.rank() == 2 ? other : ExchangeOptions{}); },
          "", said);
    });
  }
}

TEST_P(ExchangeDisagreement, OfWhatIsBroadcastIsAMismatchOnEveryRank) {
  on_ranks(3, [](Communicator& me) {
    Two mine;
    GradientExchange exchange(me, mine.gradients);
    exchange.broadcast(mine.gradients, 1);
    if (me.rank() == 2) mine.gradients.pop_back();
    expect_mismatch([&] { exchange.broadcast(mine.gradients, 0); }, "",
                    "the number of tensors 2 on rank 0, the number of tensors 1 on rank 2");
  });
}

TEST_P(ExchangeDisagreement, OfGradientsIsAMismatchOnEveryRank) {
  const std::vector<std::pair<Gradient, std::string>> others = {
      {{"c", gpu::DeviceSpan(nullptr, 12)},
       "gradient 1 is \"b\" on rank 0, gradient 1 is \"c\" on rank 2"},
      {{"b", gpu::DeviceSpan(nullptr, 8)},
       "\"b\" of 3 elements on rank 0, gradient 1 is \"b\" of 2 elements"},
      {{"b", gpu::DeviceSpan(nullptr, 12), DType::kFloat16},
       "\"b\" of float32 on rank 0, gradient 1 is \"b\" of float16 on rank 2"},
  };
  for (const auto& [gradient, part] : others) {
    on_ranks(3, [&, &other = gradient, &said = part](Communicator& me) {
      Two mine;
      if (me.rank() == 2) {
        mine.gradients[1] = {other.name, gpu::DeviceSpan(mine.b, other.data.size()), other.dtype};
      }
      expect_mismatch([&] { GradientExchange(me, mine.gradients); }, "b", said);
    });
  }
  on_ranks(3, [&](Communicator& me) {
    Two mine;
    if (me.rank() == 2) mine.gradients.pop_back();
    expect_mismatch([&] { GradientExchange(me, mine.gradients); }, "", "the number of gradients");
  });
}

// In the communicator of the exchange, rank 2 of the world is rank 0.
TEST_P(ExchangeDisagreement, NamesRanksAsOpenCounts) {
  on_ranks(3, [](Communicator& me) {
    const std::optional<Communicator> turned = me.split(me.rank() == 0 ? -1 : 0, -me.rank());
    if (!turned.has_value()) return;
    Two mine;
    const ExchangeOptions other = {.policy = Policy::kFifo};
    try {
      GradientExchange(*turned, mine.gradients, me.rank() == 1 ? other : ExchangeOptions{});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const CommMismatch& error) {
      EXPECT_EQ(error.peer(), 1);
      EXPECT_NE(std::string(error.what()).find("policy 1 on rank 2, policy 0 on rank 1"),
                std::string::npos)
          << error.what();
    }
  });
}

// ---- late ranks; exact in virtual time

/// `late` does nothing in its second step, which begins at 1 s.
void expect_late(int late, Policy policy) {
  OpenOptions options;
  options.deadline = 7s;
  in_virtual_time(3, options, [&](Communicator& me) {
    Two mine;
    GradientExchange exchange(me, mine.gradients, {.policy = policy});
    for (const bool is_second : {false, true}) {
      exchange.begin_step(1);
      if (is_second && me.rank() == late) {
        sleep_for(1min);
        EXPECT_THROW(exchange.ready(0), CommError);
        return;
      }
      exchange.ready(1);
      exchange.ready(0);
      exchange.end_backward();
      if (is_second) break;
      exchange.await_all();
      sleep_until(TimePoint(1s));
    }
    try {
      exchange.await_all();
      ADD_FAILURE() << "nothing was thrown on rank " << me.rank();
    } catch (const CommError& error) {
      EXPECT_EQ(elapsed(), 8s) << error.what();
      EXPECT_EQ(error.peer(), late) << error.what();
      EXPECT_EQ(error.tensor(), "b") << error.what();
      EXPECT_EQ(error.operation(), "step 2") << error.what();
      EXPECT_EQ(error.rank(), me.rank());
      EXPECT_EQ(dynamic_cast<const CommMismatch*>(&error), nullptr);
    }
  });
}

TEST(ExchangeLateness, OfARankIsAnErrorAtTheDeadlineOnEveryRank) {
  expect_late(1, Policy::kPriority);
  expect_late(2, Policy::kBucketed);
}

TEST(ExchangeLateness, OfTheLeaderIsAnErrorAtTheDeadlineOnEveryRank) {
  expect_late(0, Policy::kPriority);
  expect_late(0, Policy::kBucketed);
}

// In the communicator of the exchange, rank 2 of the world is rank 1.
TEST(ExchangeLateness, NamesRanksAsOpenCounts) {
  OpenOptions options;
  options.deadline = 7s;
  in_virtual_time(4, options, [](Communicator& me) {
    const std::optional<Communicator> turned = me.split(me.rank() < 2 ? -1 : 0, -me.rank());
    if (!turned.has_value()) return;
    Two mine;
    GradientExchange exchange(*turned, mine.gradients);
    exchange.begin_step(1);
    if (me.rank() == 2) return sleep_for(1min);
    exchange.ready(0);
    try {
      exchange.await(0);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const CommError& error) {
      EXPECT_EQ(error.peer(), 2) << error.what();
      EXPECT_NE(std::string(error.what()).find("rank 2 called neither"), std::string::npos)
          << error.what();
    }
  });
}

TEST(ExchangeLateness, WritesEachRanksFlightRecorder) {
  const support::TemporaryDirectory made;
  const std::filesystem::path& directory = made.path();
  OpenOptions options;
  options.recorder_directory = directory;
  support::rank_places()[0].run(3, options, [](Communicator& me) {
    Two mine;
    GradientExchange exchange(me, mine.gradients);
    const auto step = [&] {
      exchange.begin_step(1);
      if (me.rank() == 1) return;  // in its backward
      exchange.ready(0);
      exchange.ready(1);
      exchange.end_backward();
      exchange.await_all();
    };
    if (me.rank() == 1) return step();
    EXPECT_THROW(step(), CommMismatch);
  });
  for (const int rank : {0, 1, 2}) {
    std::ifstream file(directory / ("rank-" + std::to_string(rank) + ".leat-comm"));
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_NE(text.str().find("rank%201%20destroyed%20its%20exchange%20in%20step%201"),
              std::string::npos)
        << "rank " << rank << ": " << text.str();
    EXPECT_NE(text.str().find("all_gather"), std::string::npos) << "of the constructor";
  }
}

// A bucket of a and b, of which no rank makes b ready: the trainers wait for what cannot come.
TEST(ExchangeLateness, AWaitForABucketThatNobodyCompletesEndsSoonAfterTheDeadline) {
  OpenOptions options;
  options.deadline = 7s;
  in_virtual_time(2, options, [](Communicator& me) {
    Two mine;
    GradientExchange exchange(me, mine.gradients, {.policy = Policy::kBucketed});
    exchange.begin_step(1);
    exchange.ready(0);
    EXPECT_THROW(exchange.await(0), CommError);
    EXPECT_EQ(elapsed(), 7250ms);
  });
}

// 40 pieces of 1 s each; the deadline is 3 s, and nobody is late.
TEST(ExchangeLateness, AsLongAsPiecesComeNobodyIsLate) {
  OpenOptions options;
  options.deadline = 3s;
  options.link = {.alpha = 1s, .enabled = true};
  in_virtual_time(2, options, [](Communicator& me) {
    std::vector<float> gradient(40, 1);
    GradientExchange exchange(me, {{"w", gpu::DeviceSpan(gradient.data(), 160)}},
                              {.weights = Weights::kOnes, .partition_bytes = 4, .credit_bytes = 4});
    const Duration before = elapsed();
    exchange.begin_step(1);
    exchange.ready(0);
    exchange.end_backward();
    EXPECT_TRUE(exchange.await(0));
    EXPECT_EQ(elapsed() - before, 40s);
    EXPECT_EQ(gradient, std::vector<float>(40, 2));
  });
}

// Rank 0 waits for 20 ms of real time in await(), on a scheduler that would report a deadlock after
// 1 ms; then its peer comes, on a plain thread.
TEST(ExchangeLateness, APeerThatComesLateIsNoDeadlock) {
  std::vector<Communicator> ranks = open("local:2");
  std::atomic<bool> comes = false;
  std::jthread peer([&] {
    float data = 1;
    GradientExchange exchange(ranks[1], {{"w", gpu::DeviceSpan(&data, 4)}});
    exchange.begin_step(1);
    comes.wait(false);
    exchange.ready(0);
    exchange.end_backward();
    exchange.await(0);
    EXPECT_EQ(data, 2);
  });
  float data = 3;
  std::optional<GradientExchange> exchange;
  std::jthread watcher;
  run(
      [&] {
        exchange.emplace(ranks[0], std::vector<Gradient>{{"w", gpu::DeviceSpan(&data, 4)}});
        watcher = std::jthread([&] {
          while (exchange->stats().exposed < 20ms) std::this_thread::yield();
          comes = true;
          comes.notify_one();
        });
        exchange->begin_step(1);
        exchange->ready(0);
        exchange->end_backward();
        EXPECT_TRUE(exchange->await(0));
        EXPECT_EQ(data, 2);
      },
      {.workers = 1, .deadlock_after = 1ms});
}

}  // namespace exchange_disagreement_test
}  // namespace leat::comm
