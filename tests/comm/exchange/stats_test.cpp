// What an exchange has measured: exact in virtual time.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/csp/scheduler.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace exchange_stats_test {

using namespace std::chrono_literals;
using leat::support::elapsed;

OpenOptions link_of_a_byte_per_nanosecond() {
  OpenOptions options;
  options.link = {.bandwidth = 1e9, .alpha = 10us, .enabled = true};
  return options;
}

void in_virtual_time(const support::RankBody& body) {
  support::in_virtual_time(2, link_of_a_byte_per_nanosecond(), body);
}

// Of two ranks a piece of s bytes takes 10 us + s ns.
//   us    0        10              20              28              42        100
//   b              ready ───────── on the link ────┘
//   a                              ready           on the link ────┘
//   trainer                        await(a) ───────────────────────┘ computes
TEST(ExchangeStats, OfAStepAreExact) {
  in_virtual_time([](Communicator& me) {
    std::vector<float> a(1'000);
    std::vector<float> b(2'000);
    GradientExchange exchange(
        me, {{"a", gpu::DeviceSpan(a.data(), 4'000)}, {"b", gpu::DeviceSpan(b.data(), 8'000)}},
        {.policy = Policy::kFifo});
    EXPECT_EQ(exchange.stats().time, 0us);
    sleep_until(TimePoint(1ms));
    exchange.begin_step(1);
    sleep_for(10us);
    exchange.ready(1);
    sleep_for(10us);
    exchange.ready(0);
    exchange.end_backward();
    exchange.await(0);
    EXPECT_EQ(elapsed(), 1ms + 42us);
    exchange.await(1);
    sleep_for(58us);
    const ExchangeStats stats = exchange.stats();
    EXPECT_EQ(stats.steps, 1U);
    EXPECT_EQ(stats.pieces, 2U);
    EXPECT_EQ(stats.bytes, 12'000U);
    EXPECT_EQ(stats.time, 100us);
    EXPECT_EQ(stats.exposed, 22us);
    EXPECT_EQ(stats.busy, 32us);
    EXPECT_EQ(stats.hidden, 10us);
    EXPECT_EQ(stats.longest_awaited, "a");
    EXPECT_EQ(stats.longest_wait, 22us);
    EXPECT_EQ(stats.report(),
              "1 steps, 2 pieces, 0.0 MB: exposed communication 22.0 %, the rest of the step "
              "78.0 %; the link was busy for 32.0 %, of which 31.2 % were hidden; waited longest "
              "for \"a\": 0.022 ms");
  });
}

TEST(ExchangeStats, AreReadWhileTheTrainerWaits) {
  in_virtual_time([](Communicator& me) {
    std::vector<float> a(1'000);
    GradientExchange exchange(me, {{"a", gpu::DeviceSpan(a.data(), 4'000)}});
    TaskGroup reader;
    exchange.begin_step(1);
    const TimePoint began = now();
    reader.go([&] {
      sleep_for(5us);
      const ExchangeStats stats = exchange.stats();
      EXPECT_EQ(stats.time, 5us);
      EXPECT_EQ(stats.exposed, 5us);
      EXPECT_EQ(stats.busy, 5us);
      EXPECT_EQ(stats.hidden, 0us);
    });
    exchange.ready(0);
    exchange.end_backward();
    exchange.await(0);
    EXPECT_EQ(now() - began, 14us);
    reader.wait();
  });
}

TEST(ExchangeStats, OfNoStepSayNothing) {
  in_virtual_time([](Communicator& me) {
    const GradientExchange exchange(me, {});
    EXPECT_EQ(exchange.stats().report(),
              "0 steps, 0 pieces, 0.0 MB: exposed communication 0.0 %, the rest of the step 0.0 %; "
              "the link was busy for 0.0 %, of which 0.0 % were hidden");
  });
}

// With the barrier every await() waits for all; one that follows has nothing to wait for.
TEST(ExchangeStats, ASynchronousAwaitWaitsForAllGradients) {
  in_virtual_time([](Communicator& me) {
    std::vector<float> a(1'000);
    std::vector<float> b(2'000);
    GradientExchange exchange(
        me, {{"a", gpu::DeviceSpan(a.data(), 4'000)}, {"b", gpu::DeviceSpan(b.data(), 8'000)}},
        {.synchronous = true});
    const TimePoint began = now();
    exchange.begin_step(1);
    exchange.ready(1);
    exchange.ready(0);
    exchange.end_backward();
    EXPECT_TRUE(exchange.await(0));
    EXPECT_EQ(now() - began, 32us);
    EXPECT_TRUE(exchange.await(1));
    EXPECT_EQ(now() - began, 32us);
    EXPECT_EQ(exchange.stats().exposed, 32us);
  });
}

}  // namespace exchange_stats_test
}  // namespace leat::comm
