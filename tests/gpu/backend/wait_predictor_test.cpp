// When a poller looks: the lateness that it adds and the time that it burns, by arithmetic.
#include "leat/gpu/backend/wait_predictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace leat::gpu {
namespace wait_predictor_test {

using namespace std::chrono_literals;

constexpr Duration kQuery = 2us;    // what it takes to ask
constexpr Duration kWakeUp = 10us;  // a timer's lateness, and what it takes to wake

struct Wait {
  Duration late{};  // seen to be done, after it was
  Duration busy{};  // of the CPU
};

/// Polls for something that is done after `length`, as a thread does whose timers are late.
Wait poll(WaitPredictor& predictor, Duration length) {
  Wait wait;
  Duration now{};
  for (;;) {
    const bool done = now >= length;
    now += kQuery;
    wait.busy += kQuery;
    if (done) break;
    const Duration sleep = predictor.sleep(now);
    if (sleep == Duration::zero()) continue;
    now += sleep + kWakeUp;
    wait.busy += kWakeUp / 2;
  }
  wait.late = now - length;
  predictor.ended(length);
  return wait;
}

TEST(WaitPredictor, SeesTheEndOfAWaitLikeTheLastOnesAtOnce) {
  for (const Duration length :
       std::vector<Duration>{1us, 19us, 21us, 50us, 99us, 500us, 1ms, 3500us, 20ms, 300ms, 2s}) {
    WaitPredictor predictor;
    poll(predictor, length);
    for (int i = 0; i < 10; ++i) {
      EXPECT_LE(poll(predictor, length).late, 2 * kQuery) << length.count() << " ns";
    }
  }
}

TEST(WaitPredictor, SeesItAtOnceWhereWaitsDifferByAHundredth) {
  for (const Duration length : std::vector<Duration>{50us, 500us, 3500us, 20ms}) {
    WaitPredictor predictor;
    poll(predictor, length);
    for (int i = 0; i < 40; ++i) {
      EXPECT_LE(poll(predictor, length + length * (i % 3 - 1) / 100).late, 2 * kQuery);
    }
  }
}

// A copy, a step and a read-back in turns.
TEST(WaitPredictor, KnowsWaitsOfSeveralKinds) {
  WaitPredictor predictor;
  const std::vector<Duration> kinds = {300us, 7ms, 60us};
  for (int i = 0; i < 30; ++i) {
    for (const Duration length : kinds) {
      const Duration late = poll(predictor, length).late;
      EXPECT_TRUE(i == 0 || late <= 2 * kQuery) << length.count() << ": " << late.count();
    }
  }
}

TEST(WaitPredictor, IsLateByAQuarterAtMostWhereAWaitIsLikeNoOther) {
  WaitPredictor predictor;
  for (const Duration other : std::vector<Duration>{100us, 40ms, 2ms, 900ms, 25us}) {
    predictor.ended(other);
  }
  for (Duration length = 1us; length < 3s; length = length * 13 / 10) {
    WaitPredictor fresh;
    const Duration slack = WaitPredictor::kShortestSleep + kWakeUp + 2 * kQuery;
    const Duration most = WaitPredictor::kLongestSleep + slack;
    EXPECT_LE(poll(fresh, length).late, std::min(length / 16 + slack, most)) << length.count();
    WaitPredictor known = predictor;
    EXPECT_LE(poll(known, length).late, std::min(length / 4 + slack, most)) << length.count();
  }
}

TEST(WaitPredictor, BurnsLessThanATwentiethOfACoreWhileNothingEndsForASecond) {
  for (const Duration usual : std::vector<Duration>{0s, 30us, 1ms, 20ms, 300ms, 900ms}) {
    WaitPredictor predictor;
    for (int i = 1; i <= 8; ++i) predictor.ended(usual * i / 4);  // eight kinds, to make it hard
    EXPECT_LE(poll(predictor, 1s).busy, 50ms) << usual.count() << " ns";
  }
}

}  // namespace wait_predictor_test
}  // namespace leat::gpu
