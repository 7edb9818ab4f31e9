// Ranks that end at any point, by an exception or a cancellation: nobody hangs, and nobody waits
// for the deadline.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace local_cancellation_test {

using namespace std::chrono_literals;

struct Mishap {};

struct Case {
  explicit Case(std::uint64_t seed) : random(seed) {
    ranks = between(2, 4);
    steps = between(3, 12);
    victim = between(0, ranks - 1);
    at = Duration(between(0, 40'000));
    throws = between(0, 2) == 0;
    at_step = between(0, steps);
    for (int i = 0; i < steps; ++i) kinds.push_back(between(0, 5));
    if (between(0, 1) == 1) {
      options.link = {.bandwidth = 1e9, .alpha = 1us, .enabled = true};
    }
  }
  int between(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  }

  std::minstd_rand random;
  int ranks;
  int steps;
  int victim;
  Duration at;
  bool throws;  // the victim, before step at_step; otherwise it is cancelled at instant `at`
  int at_step;
  std::vector<int> kinds;
  OpenOptions options;
};

void do_step(Communicator& me, int kind, Duration pause) {
  std::vector<float> data(100);
  std::vector<float> more(100);
  sleep_for(pause);
  switch (kind) {
    case 0: return me.all_reduce(data).await();
    case 1: return me.broadcast(data, 0).await();
    case 2: {
      Completion sent = me.send(data, (me.rank() + 1) % me.size());
      me.recv(more, (me.rank() + me.size() - 1) % me.size()).await();
      return sent.await();
    }
    case 3: {
      Completion sum = me.all_reduce(data);
      Completion barrier = me.barrier();
      static_cast<void>(select(on_done(sum), on_done(barrier)));
      barrier.await();
      return sum.await();
    }
    case 4: {
      const std::optional<Communicator> half = me.split(me.rank() % 2);
      return half->all_reduce(data).await();
    }
    default: {
      Communicator other = me.duplicate();
      Completion sum = other.all_reduce(data);
      me.barrier().await();
      return sum.await();
    }
  }
}

enum class Ending { kFinished, kError, kCancelled, kMishap };

Ending run_rank(const Case& what, Communicator me, std::uint64_t seed) {
  std::minstd_rand random(seed + static_cast<std::uint64_t>(me.rank()));
  const int rank = me.rank();
  try {
    for (int step = 0; step <= what.steps; ++step) {
      if (what.throws && rank == what.victim && step == what.at_step) throw Mishap{};
      if (step == what.steps) break;
      do_step(me, what.kinds[static_cast<std::size_t>(step)], Duration(random() % 3'000));
    }
    return Ending::kFinished;
  } catch (const CommError&) {
    return Ending::kError;
  } catch (const Mishap&) {
    return Ending::kMishap;
  } catch (const Cancelled&) {
    return Ending::kCancelled;
  }
}

TEST(LocalCancellation, AtAnyPointNothingHangsAndEveryRankEnds) {
  int with_errors = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(leat::support::rounds(1'000));
       ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "seed " << seed);
    const Case what(seed);
    std::vector<std::optional<Ending>> ends(static_cast<std::size_t>(what.ranks));
    const Duration took = leat::support::in_virtual_time({.workers = 1, .seed = seed}, [&] {
      std::vector<Communicator> ranks = open("local:" + std::to_string(what.ranks), what.options);
      TaskGroup victim;
      TaskGroup others;
      for (Communicator& one : ranks) {
        const auto rank = static_cast<std::size_t>(one.rank());
        (one.rank() == what.victim ? victim : others).go([&, rank, me = std::move(one)]() mutable {
          ends[rank] = run_rank(what, std::move(me), seed);
        });
      }
      if (!what.throws) {
        sleep_for(what.at);
        victim.stop();
      }
      victim.wait();
      others.wait();
    });
    EXPECT_LT(took, 1min);  // nobody waited for the deadline
    bool has_error = false;
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      ASSERT_TRUE(ends[rank].has_value()) << "rank " << rank;
      has_error |= *ends[rank] == Ending::kError;
      if (static_cast<int>(rank) == what.victim) continue;
      EXPECT_TRUE(*ends[rank] == Ending::kFinished || *ends[rank] == Ending::kError)
          << "rank " << rank;
    }
    with_errors += has_error ? 1 : 0;
  }
  EXPECT_GT(with_errors, leat::support::rounds(1'000) / 2);  // most points are in the middle
}

// All ranks are cancelled with what runs them, in the middle of everything.
TEST(LocalCancellation, OfTheWholeRunEndsEverything) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Case what(seed);
    leat::support::in_virtual_time({.workers = 1, .seed = seed}, [&] {
      for (Communicator& one : open("local:" + std::to_string(what.ranks), what.options)) {
        go([&what, seed, me = std::move(one)]() mutable {
          static_cast<void>(run_rank(what, std::move(me), seed));
        });
      }
      sleep_for(what.at);
    });
  }
}

}  // namespace local_cancellation_test
}  // namespace leat::comm
