#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <vector>

#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace select_fairness_test {

constexpr int kTrials = 10'000;
// Of a normal variable, exceeded in either direction once in a million tests.
constexpr double kSigmas = 4.891676;

/// Checks that `count` of `trials` is what an event of that probability gives.
void expect_frequency(int count, double probability, int trials = kTrials) {
  const double deviation = std::abs(static_cast<double>(count) / trials - probability);
  EXPECT_LT(deviation, kSigmas * std::sqrt(probability * (1 - probability) / trials)) << count;
}

TEST(SelectFairness, SendAndReceiveAreChosenEquallyOften) {
  support::run_each([] {
    Channel<int> c(2);
    c.send(1);
    int sends = 0;
    for (int i = 0; i < kTrials; ++i) {
      select(on_recv(c, [&](auto v) { c.send(*v); }), on_send(c, 1, [&] {
               ++sends;
               static_cast<void>(c.recv());
             }));
    }
    expect_frequency(sends, 0.5);
  });
}

TEST(SelectFairness, EachOfKReadyAmongNIsChosenEquallyOften) {
  // A random rotation, instead of a permutation, would choose case 4 as often as the others taken
  // together.
  support::run_each([] {
    Channel<int> idle(0);
    Channel<int> ready(1);
    ready.close();
    std::array<int, 7> count{};
    for (int i = 0; i < kTrials; ++i) {
      const int index = select(on_recv(ready), on_recv(idle), on_recv(idle), on_recv(idle),
                               on_recv(ready), on_recv(ready), on_recv(idle));
      ++count.at(static_cast<std::size_t>(index));
    }
    for (const std::size_t index : {0U, 4U, 5U}) expect_frequency(count[index], 1.0 / 3);
    for (const std::size_t index : {1U, 2U, 3U, 6U}) EXPECT_EQ(count[index], 0);
  });
}

TEST(SelectFairness, EveryOrderOfThreeChoicesIsEquallyLikely) {
  // Successive choices of one fiber are independent.
  support::run_each([] {
    Channel<int> ready(1);
    ready.close();
    std::array<int, 27> count{};
    for (int i = 0; i < kTrials; ++i) {
      int triple = 0;
      for (int k = 0; k < 3; ++k) {
        triple = 3 * triple + select(on_recv(ready), on_recv(ready), on_recv(ready));
      }
      ++count.at(static_cast<std::size_t>(triple));
    }
    for (const int c : count) expect_frequency(c, 1.0 / 27);
  });
}

// A regression: the first choices of fibers launched one after the other were the same in runs of
// six, and of every twelfth fiber in runs of 32.
TEST(SelectFairness, FirstChoicesOfNeighbouringFibersAreIndependent) {
  support::run_each([] {
    Channel<int> ready(1);
    ready.close();
    constexpr int kFibers = support::rounds(kTrials);
    std::vector<int> choice(kFibers);
    TaskGroup group;
    group.set_limit(100);
    for (int& one : choice) group.go([&] { one = select(on_recv(ready), on_recv(ready)); });
    group.wait();
    for (const std::size_t stride : {1U, 2U, 6U, 12U}) {
      int equal = 0;
      for (std::size_t i = 0; i < choice.size(); ++i) {
        equal += choice[i] == choice[(i + stride) % choice.size()] ? 1 : 0;
      }
      expect_frequency(equal, 0.5, kFibers);
    }
  });
}

TEST(SelectFairness, PlainThreadsChooseEquallyOften) {
  Channel<int> ready(1);
  ready.close();
  int first = 0;
  for (int i = 0; i < kTrials; ++i) first += select(on_recv(ready), on_recv(ready)) == 0 ? 1 : 0;
  expect_frequency(first, 0.5);
}

std::vector<int> choices_of(int count) {
  Channel<int> ready(1);
  ready.close();
  std::vector<int> choices;
  for (int i = 0; i < count; ++i) choices.push_back(select(on_recv(ready), on_recv(ready)));
  return choices;
}

// A regression: the choices of every run, and of the plain threads of every process, were the same.
TEST(SelectFairness, WithoutASeedAnotherRunChoosesOtherwise) {
  const auto choices = [](std::uint64_t seed) {
    return run([] { return choices_of(100); }, {.workers = 1, .seed = seed});
  };
  EXPECT_NE(choices(0), choices(0));
  EXPECT_EQ(choices(1), choices(1));
}

TEST(SelectFairnessDeathTest, ThreadsOfAnotherProcessChooseOtherwise) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::set<int> seen;  // eight choices of each process
  for (int process = 0; process < 4; ++process) {
    EXPECT_EXIT(
        {
          int bits = 0;
          for (const int choice : choices_of(8)) bits = 2 * bits + choice;
          std::exit(bits);
        },
        [&](int status) {
          seen.insert(WEXITSTATUS(status));
          return WIFEXITED(status);
        },
        "");
  }
  EXPECT_GT(seen.size(), 1U);
}

TEST(SelectFairness, EqualSeedsGiveEqualChoicesAndOthersDoNot) {
  const auto choices = [](std::uint64_t seed) {
    VirtualClock clock;
    return run([] { return choices_of(100); }, {.workers = 1, .clock = &clock, .seed = seed});
  };
  EXPECT_EQ(choices(0), choices(0));
  EXPECT_EQ(choices(1), choices(1));
  EXPECT_NE(choices(1), choices(2));
}

}  // namespace select_fairness_test
}  // namespace leat
