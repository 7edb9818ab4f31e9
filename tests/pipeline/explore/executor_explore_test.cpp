// The executor in one process under an explorer: two ranks, a fiber each, three microbatches.
//
// What a schedule of fibers and threads is judged by: every step returns, and the gradients are
// those of one device.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "leat/csp/explore.h"
#include "leat/pipeline/check.h"
#include "leat/pipeline/executor/runner.h"
#include "leat/pipeline/text.h"
#include "tests/pipeline/executor/support/model.h"

namespace leat::pipeline {
namespace executor_explore_test {

constexpr const char* kOneFOneB = "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n";
// Transfers beside what is computed, and a weight's gradient later.
constexpr const char* kTogether =
    "0F0,0SEND_F0+0F1,0SEND_F1,0RECV_B0+0F2,0I0+0SEND_F2,0RECV_B1+0W0,0B1,0RECV_B2,0B2\n"
    "1RECV_F0,1F0+1RECV_F1,1B0,1SEND_B0+1F1,1B1+1RECV_F2,1SEND_B1,1F2,1B2,1SEND_B2\n";

void train(const Schedule& lowered, int capacity) {
  support::Model model(lowered, {.stages = {{0, 0, 0, 1}}});
  Runner runner(lowered, model.parts(), {.most_samples = 3}, capacity);
  runner.step(3, 0, false);
  if (model.sums() != support::gradients_of(2, 3, 3, 3)) {
    throw std::logic_error("a gradient is wrong");
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSamples = 300;
#else
constexpr std::uint64_t kSamples = 2'000;
#endif

void expect_no_failure(const char* text, int capacity, const ExploreOptions& options) {
  const Schedule lowered = lower(parse(text));
  const ExploreResult result = explore([&] { train(lowered, capacity); }, options);
  EXPECT_TRUE(result) << result.failure << "\n" << result.schedule;
  std::printf(
      "%llu schedules of up to %llu steps%s\n", static_cast<unsigned long long>(result.schedules),
      static_cast<unsigned long long>(result.longest), result.complete ? ", all of them" : "");
}

TEST(ExploredExecutor, OneFOneBWithOnePlace) {
  expect_no_failure(kOneFOneB, 1, {.schedules = kSamples, .workers = 2});
}

TEST(ExploredExecutor, OneFOneBWithOnePreemption) {
  expect_no_failure(
      kOneFOneB, 1,
      {.schedules = 20 * kSamples, .exhaustive = true, .preemptions = 1, .workers = 2});
}

TEST(ExploredExecutor, ActionsOfACellTogetherWhereBothSidesMeet) {
  expect_no_failure(kTogether, 0, {.schedules = kSamples, .workers = 2});
}

TEST(ExploredExecutor, ActionsOfACellTogetherWithTwoPlaces) {
  expect_no_failure(kTogether, 2, {.schedules = kSamples, .workers = 2});
}

}  // namespace executor_explore_test
}  // namespace leat::pipeline
