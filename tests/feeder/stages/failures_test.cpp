// What is kept of failed samples; the prefetcher's budgets are policies_test.cpp's.
#include "leat/feeder/slots/failures.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "leat/csp/error.h"

namespace leat::feeder {
namespace failures_test {

// A rate is a budget for ever: of what it allows in months, the list keeps the beginning.
TEST(Failures, TheListHasAnEndAndTheCountHasNone) {
  Failures failures("numbers", 1, {.rate = 1}, {});
  const std::exception_ptr cause = std::make_exception_ptr(std::runtime_error("torn"));
  for (std::uint64_t sample = 0; sample < kMostListed + 5; ++sample) {
    std::vector<Failure> one{
        {.sample = {.sample = sample, .error = "torn"}, .attempted = 1, .cause = cause}};
    failures.charge(1, one);
    EXPECT_TRUE(one.empty());
  }
  EXPECT_EQ(failures.count(), kMostListed + 5);
  const std::vector<FailedSample> list = failures.list();
  ASSERT_EQ(list.size(), kMostListed);
  EXPECT_EQ(list.front().sample, 0U);
  EXPECT_EQ(list.back().sample, kMostListed - 1);
}

// Of the batch that fails, what was read up to the failure, and not what came after it.
TEST(Failures, ARateIsOfWhatWasReadByThen) {
  const std::exception_ptr cause = std::make_exception_ptr(std::runtime_error("torn"));
  const auto charge = [&](std::size_t attempted) {
    Failures failures("numbers", 1, {.rate = 0.5}, {});
    std::vector<Failure> one{{.sample = {.error = "torn"}, .attempted = attempted, .cause = cause}};
    failures.charge(10, one);
  };
  EXPECT_NO_THROW(charge(2));
  EXPECT_THROW(charge(1), Error);
}

// A run would otherwise end at a bad sample that happens to come first. It does not go on for ever
// where everything fails.
TEST(Failures, ARateAllowsThoseOfAnEpochFromTheBeginningButNoMoreThan100) {
  const std::exception_ptr cause = std::make_exception_ptr(std::runtime_error("torn"));
  for (const auto& [epoch, most] :
       {std::pair{99U, 0U}, {100U, 1U}, {1'000U, 10U}, {1'000'000U, 100U}}) {
    Failures failures("numbers", epoch, {.rate = 0.01}, {});
    std::uint64_t failed = 0;
    try {
      for (; failed < 200; ++failed) {
        std::vector<Failure> one{{.sample = {.error = "torn"}, .attempted = 1, .cause = cause}};
        failures.charge(1, one);
      }
    } catch (const Error&) {  // beyond the budget
    }
    EXPECT_EQ(failed, most) << epoch;
  }
}

}  // namespace failures_test
}  // namespace leat::feeder
