// What is kept of failed samples; the prefetcher's budgets are policies_test.cpp's.
#include "leat/feeder/stages/failures.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <vector>

#include "leat/csp/error.h"

namespace leat::feeder {
namespace failures_test {

// A rate is a budget for ever: of what it allows in months, the list keeps the beginning.
TEST(Failures, TheListHasAnEndAndTheCountHasNone) {
  Failures failures("numbers", {.rate = 1}, {});
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
    Failures failures("numbers", {.rate = 0.5}, {});
    std::vector<Failure> one{{.sample = {.error = "torn"}, .attempted = attempted, .cause = cause}};
    failures.charge(10, one);
  };
  EXPECT_NO_THROW(charge(2));
  EXPECT_THROW(charge(1), Error);
}

}  // namespace failures_test
}  // namespace leat::feeder
