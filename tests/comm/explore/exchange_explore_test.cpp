// The exchange on the transport local under an explorer: two ranks, a fiber each, beside the
// scheduler of communication.
//
// What a schedule is judged by: every await() returns; every gradient then has the sum of its step,
// so that no piece was left out and none summed twice; the ranks have exchanged as many pieces as
// there are; nothing hangs and nothing fails.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/csp/clock.h"
#include "leat/csp/explore.h"
#include "leat/csp/task_group.h"

namespace leat::comm {
namespace exchange_explore_test {

struct Training {
  std::size_t tensors = 2;
  std::size_t elements = 2;  // of a tensor
  std::size_t partition = 1;
  std::size_t credit = 1;
  Policy policy = Policy::kPriority;
  int steps = 1;
  int threads = 1;  // of communication
};

// What a rank contributes to an element: powers of two tell who is in a sum, and how often.
float part_of(int rank, int step, std::size_t tensor) {
  return static_cast<float>((rank == 0 ? 1 : 16) + 256 * step + 4096 * static_cast<int>(tensor));
}

void train(const Communicator& communicator, const Training& training) {
  const int rank = communicator.rank();
  std::vector<std::vector<float>> values(training.tensors, std::vector<float>(training.elements));
  std::vector<Gradient> gradients;
  for (std::size_t i = 0; i < training.tensors; ++i) {
    gradients.push_back({.name = "t" + std::to_string(i),
                         .data = gpu::DeviceSpan(values[i].data(), training.elements * 4)});
  }
  GradientExchange exchange(communicator, gradients,
                            {.policy = training.policy,
                             .weights = Weights::kOnes,
                             .partition_bytes = 4 * training.partition,
                             .credit_bytes = 4 * training.credit,
                             .bucket_bytes = {4 * training.elements + 4}});
  for (int step = 1; step <= training.steps; ++step) {
    exchange.begin_step(1);
    for (std::size_t n = 0; n < training.tensors; ++n) {
      // The ranks' orders differ: each one's own order would not do.
      const std::size_t i = rank == 0 ? training.tensors - 1 - n : n;
      values[i].assign(training.elements, part_of(rank, step, i));
      exchange.ready(i);
    }
    exchange.end_backward();
    for (std::size_t i = 0; i < training.tensors; ++i) {
      static_cast<void>(exchange.await(i));
      for (const float value : values[i]) {
        if (value != part_of(0, step, i) + part_of(1, step, i)) {
          throw std::logic_error("a gradient has " + std::to_string(value) + " for its sum");
        }
      }
    }
  }
  const std::size_t pieces = (training.elements + training.partition - 1) / training.partition;
  if (training.policy != Policy::kBucketed &&
      exchange.stats().pieces !=
          pieces * training.tensors * static_cast<unsigned>(training.steps)) {
    throw std::logic_error("there were " + std::to_string(exchange.stats().pieces) + " pieces");
  }
}

// No schedule reaches it: the explorer lets any deadline pass at any moment.
constexpr Duration kNoDeadline = Duration::max();

void train_together(const Training& training) {
  const std::vector<Communicator> ranks =
      open("local:2", {.deadline = kNoDeadline, .threads = training.threads});
  TaskGroup group;
  for (const Communicator& rank : ranks) {
    group.go([&] { train(rank, training); });
  }
  group.wait();
}

// A test has to end within a fifth of its time limit on a slow machine.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kMostSchedules = 1'000;
constexpr std::uint64_t kSamples = 1'000;
constexpr bool kAll = false;
#else
constexpr std::uint64_t kMostSchedules = 50'000;  // more than there are
constexpr std::uint64_t kSamples = 20'000;
constexpr bool kAll = true;
#endif

void expect_no_failure(const ExploreResult& result) {
  EXPECT_TRUE(result) << result.failure << "\n" << result.schedule;
  testing::Test::RecordProperty("schedules", std::to_string(result.schedules));
  std::printf("%llu schedules of up to %llu steps\n",
              static_cast<unsigned long long>(result.schedules),
              static_cast<unsigned long long>(result.longest));
}

void expect_complete(const ExploreResult& result) {
  expect_no_failure(result);
  EXPECT_TRUE(result.complete || !kAll) << result.schedules << " schedules are not all";
}

ExploreOptions one_preemption() {
  return {.schedules = kMostSchedules, .exhaustive = true, .preemptions = 1};
}

class ExploreExchange : public testing::TestWithParam<Training> {};
std::string to_string(const Training& training) {
  switch (training.policy) {
    case Policy::kFifo: return "Fifo";
    case Policy::kPriority: return training.credit == 1 ? "Priority" : "PriorityTwoInFlight";
    case Policy::kBucketed: return "Bucketed";
  }
  return "?";
}
void PrintTo(const Training& training, std::ostream* out) {
  *out << to_string(training);
}  // NOLINT: GoogleTest's name
std::string training_title(const testing::TestParamInfo<Training>& info) {
  return to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Policies, ExploreExchange,
                         testing::Values(Training{}, Training{.credit = 2},
                                         Training{.policy = Policy::kFifo},
                                         Training{.policy = Policy::kBucketed}),
                         training_title);

TEST_P(ExploreExchange, TwoTensorsAreSummedOnceUnderAnyScheduleWithOnePreemption) {
  expect_complete(explore([] { train_together(GetParam()); }, one_preemption()));
}

// By seed: 20,000 schedules in all.
class ExploreSamples : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, ExploreSamples, testing::Values(1, 2));

TEST_P(ExploreSamples, ThreeTensorsAreSummedOnceUnderRandomSchedules) {
  expect_no_failure(explore([] { train_together({.tensors = 3}); },
                            {.schedules = kSamples / 2, .seed = GetParam()}));
}

TEST(ExploreRanks, TheNextStepStartsWhileTheLastOneIsAwaitedUnderRandomSchedules) {
  expect_no_failure(explore([] { train_together({.steps = 3}); }, {.schedules = kSamples / 10}));
}

TEST(ExploreRanks, TheRanksExchangesOnThreadsOfTheirOwnTakePartUnderRandomSchedules) {
  expect_no_failure(explore([] { train_together({.threads = 2}); }, {.schedules = kSamples / 4}));
}

// A rank on a plain thread: its calls come from outside of the scheduler of communication, as those
// of the other do, and between any two steps of that one.
TEST(ExploreRanks, ARankOnAPlainThreadTakesPartUnderRandomSchedules) {
  const auto body = [] {
    const std::vector<Communicator> ranks = open("local:2", {.deadline = kNoDeadline});
    SimulatedThread thread([&] { train(ranks[1], {.tensors = 3}); });
    {
      const OutsideWork outside;
      train(ranks[0], {.tensors = 3});
    }
    thread.join();
  };
  expect_no_failure(explore(body, {.schedules = kSamples / 4}));
}

// Somebody cancels a rank at any of its steps: which one, the preemption decides.
TEST(ExploreRanks, ACancelledRankEndsTheOthersUnderAnyScheduleWithOnePreemption) {
  const auto body = [] {
    const std::vector<Communicator> ranks = open("local:2", {.deadline = kNoDeadline});
    TaskGroup first;
    TaskGroup second;
    first.go([&] { train(ranks[0], {}); });
    second.go([&] { train(ranks[1], {}); });
    yield();
    second.stop();
    for (TaskGroup* const group : {&first, &second}) {
      try {
        group->wait();
      } catch (const CommError&) {  // what a rank gets whose peer has gone
      }
    }
  };
  expect_complete(explore(body, one_preemption()));
}

// The last rank comes between the one that called something else and the end of the world.
TEST(ExploreRanks,
     NoOperationRunsInWhichARankCalledSomethingElseUnderAnyScheduleWithOnePreemption) {
  const auto body = [] {
    const std::vector<Communicator> ranks = open("local:3", {.deadline = kNoDeadline});
    const auto call = [&](std::size_t rank) {
      float one = 1;
      try {
        Elements all(&one, 1, DType::kFloat32);
        (rank == 1 ? ranks[rank].barrier() : ranks[rank].all_reduce(all)).await();
        throw std::logic_error("rank " + std::to_string(rank) + " has a result");
      } catch (const CommMismatch&) {
      }
    };
    SimulatedThread second([&] { call(1); });
    SimulatedThread third([&] { call(2); });
    {
      const OutsideWork outside;
      call(0);
    }
    second.join();
    third.join();
  };
  expect_complete(explore(body, one_preemption()));
}

}  // namespace exchange_explore_test
}  // namespace leat::comm
