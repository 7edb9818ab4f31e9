// The rates of a live view: exact, of instants that the test makes up.
#include "leat/feeder/live/rate.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace leat::feeder {
namespace rate_test {

using namespace std::chrono_literals;

constexpr std::uint64_t kBatchSize = 16;

TimePoint at(Duration since) { return TimePoint(1h + since); }

void release(LiveRate& rate, Duration when, std::uint64_t batch) {
  rate.add(at(when), batch, batch * kBatchSize);
}

// Steps of `step`, all told, the first batch at `step`.
LiveRate steps_of(Duration step, std::uint64_t count) {
  LiveRate rate;
  for (std::uint64_t i = 1; i <= count; ++i) release(rate, static_cast<int>(i) * step, i);
  return rate;
}

void expect(const LiveRate& rate, Duration now, double batches) {
  const std::optional<LiveRate::Rates> rates = rate.rates(at(now));
  ASSERT_TRUE(rates.has_value());
  EXPECT_DOUBLE_EQ(rates->batches, batches);
  EXPECT_DOUBLE_EQ(rates->samples, batches * kBatchSize);
}

TEST(LiveRate, IsUnknownUntilAStepIs) {
  LiveRate rate;
  EXPECT_TRUE(rate.is_empty());
  EXPECT_FALSE(rate.rates(at(10s)).has_value());
  release(rate, 3s, 1);  // how long it took, from what on?
  EXPECT_FALSE(rate.is_empty());
  EXPECT_FALSE(rate.rates(at(3s)).has_value());
  EXPECT_FALSE(rate.rates(at(5s)).has_value());
  release(rate, 6s, 2);
  expect(rate, 6s, 1 / 3.0);
}

TEST(LiveRate, OfSlowStepsIsTheSameAtAnyTime) {
  LiveRate rate;
  for (int tenth = 30; tenth < 600; ++tenth) {
    const auto batch = static_cast<std::uint64_t>(tenth / 30);
    rate.add(at(static_cast<int>(batch) * 3s), batch, batch * kBatchSize);
    if (batch >= 2) expect(rate, tenth * 100ms, 1 / 3.0);
  }
}

// 7 a second, looked at ten times a second: what a fixed second counts is 6 or 7 or 8.
TEST(LiveRate, OfFastStepsDoesNotJump) {
  constexpr Duration kStep = 1'000'000'000ns / 7;
  LiveRate rate;
  for (int tenth = 3; tenth < 100; ++tenth) {
    const auto batch = static_cast<std::uint64_t>(tenth * 100ms / kStep);
    rate.add(at(static_cast<int>(batch) * kStep), batch, batch * kBatchSize);
    if (batch >= 3) {
      ASSERT_TRUE(rate.rates(at(tenth * 100ms)).has_value());
      EXPECT_NEAR(rate.rates(at(tenth * 100ms))->batches, 7, 1e-6);
    }
  }
}

// Not every batch is told of: 1000 steps a second.
TEST(LiveRate, CountsBatchesThatWereNotTold) {
  LiveRate rate;
  release(rate, 1ms, 1);
  release(rate, 51ms, 51);
  expect(rate, 51ms, 1000);
  release(rate, 151ms, 101);
  expect(rate, 151ms, 100 / 0.15);
}

TEST(LiveRate, IsOfTheLatestSecond) {
  LiveRate rate = steps_of(10ms, 200);  // until 2 s
  for (int i = 1; i <= 99; ++i) release(rate, 2s + i * 20ms, 200U + static_cast<unsigned>(i));
  expect(rate, 3980ms, 50);
}

TEST(LiveRate, IsOfTheLatestFourStepsWhereTheyTakeLonger) {
  LiveRate rate = steps_of(1s, 10);  // until 10 s
  for (std::uint64_t i = 1; i <= 3; ++i) release(rate, 10s + static_cast<int>(i) * 5s, 10 + i);
  expect(rate, 25s, 4 / 16.0);
  release(rate, 30s, 14);
  expect(rate, 30s, 1 / 5.0);
}

// It falls as if the step ended now, no sooner than that is longer than the others; and after the
// pause it is soon what it was.
TEST(LiveRate, FallsDuringAPause) {
  LiveRate rate = steps_of(100ms, 31);  // the latest second: 10 steps until 3.1 s
  expect(rate, 3100ms, 10);
  expect(rate, 3200ms, 10);
  expect(rate, 3300ms, 11 / 1.2);
  expect(rate, 12100ms, 11 / 10.0);
  for (int i = 0; i <= 10; ++i) release(rate, 13100ms + i * 100ms, 32U + static_cast<unsigned>(i));
  expect(rate, 14100ms, 10);
}

TEST(LiveRate, TheSameCountAgainIsNoStep) {
  LiveRate rate = steps_of(3s, 2);
  for (int i = 0; i < 100; ++i) rate.add(at(6s), 2, 2 * kBatchSize);
  expect(rate, 6s, 1 / 3.0);
}

// In virtual time work takes none.
TEST(LiveRate, IsUnknownWhereNoTimeHasPassed) {
  EXPECT_FALSE(steps_of(0s, 5).rates(at(0s)).has_value());
  EXPECT_FALSE(steps_of(0s, 5).rates(at(1s)).has_value());
}

// Batches may be released on a thread whose clock is not the stages'.
TEST(LiveRate, AnInstantOfAnotherClockBeginsAnew) {
  LiveRate rate = steps_of(100ms, 10);
  rate.add(TimePoint(5ms), 11, 11 * kBatchSize);
  EXPECT_FALSE(rate.rates(at(1s)).has_value());
  rate.add(TimePoint(7ms), 12, 12 * kBatchSize);
  EXPECT_DOUBLE_EQ(rate.rates(TimePoint(0s))->batches, 500);
}

}  // namespace rate_test
}  // namespace leat::feeder
