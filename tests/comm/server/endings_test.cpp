// Workers and servers that end in the middle of a step: nobody hangs, every other rank is told at
// once or ends normally, and no memory is used any more.
#include "tests/comm/support/endings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "leat/comm/parameter_server.h"
#include "leat/csp/scheduler.h"
#include "tests/comm/support/layers.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace server_endings_test {

using namespace std::chrono_literals;
using support::Ending;
using support::Endings;
using support::Layers;
using support::Way;

/// Some options for so many ranks.
ServerOptions any_options(std::mt19937& random, int ranks) {
  ServerOptions options{.servers = {}};
  for (int rank = 0; rank < ranks; ++rank) {
    if (random() % 2 == 0) options.servers.push_back(rank);
  }
  if (options.servers.empty()) options.servers.push_back(static_cast<int>(random()) & 1);
  if (random() % 3 == 0) {
    options.workers.resize(static_cast<std::size_t>(ranks));
    std::iota(options.workers.begin(), options.workers.end(), 0);
  }
  options.synchronous = random() % 2 == 0;
  if (!options.synchronous && random() % 2 == 0) options.staleness = 2;
  options.policy = random() % 2 == 0 ? Policy::kFifo : Policy::kPriority;
  options.partition_bytes = 4 + random() % 400;
  options.credit_bytes = 4 + random() % 2'000;
  return options;
}

bool works(const ServerOptions& options, int rank, int ranks) {
  const bool serves = std::ranges::count(options.servers, rank) > 0;
  return !serves || !options.workers.empty() ||
         options.servers.size() == static_cast<std::size_t>(ranks);
}

/// What one rank does. Before each call it may be lost.
struct Trainer {
  Communicator& me;
  ServerOptions options;
  std::function<bool()> goes_on;   // before each call; false: leave
  std::function<bool()> gives_up;  // whether to destroy the completions that it has
  std::atomic<bool>& has_given;    // everything of the last step
  static constexpr int kSteps = 3;

  bool run() {
    Layers layers({30, 0, 100, 1});
    if (!goes_on()) return false;
    ParameterServer server(me, layers.parameters(), options);
    if (!goes_on()) return false;
    if (!works(options, me.rank(), me.size())) {
      server.serve();
      return true;
    }
    for (int step = 0; step < kSteps; ++step) {
      server.begin_step(1);
      std::vector<Completion> open;
      for (std::size_t i = server.size(); i-- > 0;) {
        if (!goes_on()) return false;
        if (gives_up()) open.clear();
        open.push_back(server.send_vars(i));
        open.push_back(server.fetch_vars(i));
      }
      if (!goes_on()) return false;
      if (options.synchronous) open.push_back(server.send_barrier());
      if (step + 1 == kSteps) has_given = true;
      open.push_back(server.fetch_barrier());
      std::ranges::rotate(open, open.begin() + 3);
      for (Completion& one : open) {
        if (!goes_on()) return false;
        one.await();
      }
    }
    server.serve();
    return true;
  }
};

void lose_a_rank(std::uint32_t seed) {
  std::mt19937 random(seed);
  support::Loss loss{.ranks = 2 + static_cast<int>(random() % 3)};
  const ServerOptions options = any_options(random, loss.ranks);
  loss.victim = static_cast<std::uint32_t>(random()) % static_cast<std::uint32_t>(loss.ranks);
  loss.way = static_cast<Way>(seed % 4);
  loss.at = std::chrono::nanoseconds(random() % 1'000'000);
  loss.before_call = static_cast<std::uint32_t>(random() % 50);
  loss.delta = random() % 2 == 0 ? 0us : 3us;
  Endings endings;
  support::lose_a_rank(seed, loss, endings,
                       [&](Communicator& me, const support::Fate& fate, auto& has_given) {
                         return Trainer{me, options, fate.goes_on, fate.gives_up, has_given}.run();
                       });
  const bool victim_is_done = endings.of[loss.victim] == Ending::kDone;
  for (std::uint32_t rank = 0; rank < static_cast<std::uint32_t>(loss.ranks); ++rank) {
    const Ending ending = endings.of[rank];
    const bool is_told = ending == Ending::kMismatch || ending == Ending::kError;
    if (victim_is_done) {
      EXPECT_EQ(ending, Ending::kDone) << "rank " << rank;
    } else if (rank == loss.victim) {
      EXPECT_TRUE(ending == Ending::kLost || ending == Ending::kCancelled ||
                  (loss.way == Way::kCompletion && is_told));
    } else {
      // A synchronous step of a worker needs the victim's gradients, if that is one.
      const bool is_needed = options.synchronous && !endings.has_given[loss.victim] &&
                             works(options, static_cast<int>(loss.victim), loss.ranks) &&
                             works(options, static_cast<int>(rank), loss.ranks);
      EXPECT_TRUE(is_told || (ending == Ending::kDone && !is_needed))
          << "rank " << rank << ": " << static_cast<int>(ending);
    }
  }
}

class ServerEndings : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Tenth, ServerEndings, testing::Range(0U, 10U));

// A sanitizer looks at what runs, which a few points have run.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint32_t kPoints = 10;
#else
constexpr std::uint32_t kPoints = 100;
#endif

// 1,000 points in all: by an exception, by leaving, by cancellation, by giving up completions.
TEST_P(ServerEndings, ALostRankIsAnErrorAtOnceOnWhoNeedsIt) {
  for (std::uint32_t i = 0; i < kPoints; ++i) {
    const std::uint32_t seed = 100 * GetParam() + i;
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "seed " << seed);
    lose_a_rank(seed);
    if (testing::Test::HasFailure()) return;
  }
}

class ServerEndingsInPlaces : public support::RankTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, ServerEndingsInPlaces, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

TEST_P(ServerEndingsInPlaces, ALostRankLeavesNobodyWaiting) {
  for (std::uint32_t seed = 0; seed < 3 * kPoints / 5; ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const int ranks = 2 + static_cast<int>(random() % 3);
    const ServerOptions options = any_options(random, ranks);
    const int victim = static_cast<int>(random() % static_cast<std::uint32_t>(ranks));
    const auto before_call = static_cast<std::uint32_t>(random() % 40);
    Endings endings;
    on_ranks(ranks, [&](Communicator& me) {
      const auto rank = static_cast<std::size_t>(me.rank());
      std::uint32_t calls = 0;
      support::note(endings.of[rank], [&] {
        return Trainer{me, options, [&] { return me.rank() != victim || calls++ != before_call; },
                       [] { return false; }, endings.has_given[rank]}
            .run();
      });
    });
    const auto lost = static_cast<std::size_t>(victim);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      EXPECT_NE(endings.of[rank], Ending::kNone);
      if (endings.of[lost] == Ending::kDone) {
        EXPECT_EQ(endings.of[rank], Ending::kDone);
      }
    }
  }
}

TEST_P(ServerEndingsInPlaces, ServersThatWereNeverUsedEndQuietly) {
  on_ranks([](Communicator& me) {
    Layers layers({3});
    {
      ParameterServer server(me, layers.parameters());
      server.serve();
    }
    me.barrier().await();
  });
}

}  // namespace server_endings_test
}  // namespace leat::comm
