// A rank that is lost in the middle of its steps, and how every rank of its world ends.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat::comm::support {

enum class Ending : std::uint8_t { kNone, kDone, kLost, kCancelled, kMismatch, kError };
enum class Way : std::uint8_t { kException, kDestruction, kCancellation, kCompletion };

struct Lost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How f ended, which returns whether it was done. Cancelled goes on.
template <class F>
void note(std::atomic<Ending>& ending, const F& f) {
  struct OnUnwinding {
    ~OnUnwinding() {
      if (ending == Ending::kNone) ending = Ending::kCancelled;
    }
    std::atomic<Ending>& ending;
  } const on_unwinding{ending};
  try {
    ending = f() ? Ending::kDone : Ending::kLost;
  } catch (const Lost&) {
    ending = Ending::kLost;
  } catch (const CommMismatch&) {
    ending = Ending::kMismatch;
  } catch (const CommError&) {
    ending = Ending::kError;
  }
}

/// By rank: how it ended, and whether it has given everything of its last step.
struct Endings {
  std::array<std::atomic<Ending>, 4> of = {};
  std::array<std::atomic<bool>, 4> has_given = {};
};

/// Of so many ranks, which one is lost and how: after `at` of virtual time if it is cancelled,
/// otherwise before its `before_call`-th call.
struct Loss {
  int ranks = 0;
  std::uint32_t victim = 0;
  Way way = Way::kException;
  Duration at{};
  std::uint32_t before_call = 0;
  Duration delta{};  // of the link
};

/// What a rank asks before each call: false, or an exception, if it is lost; and then, whether it
/// gives up the completions that it has.
struct Fate {
  std::function<bool()> goes_on;
  std::function<bool()> gives_up;
};

/// Runs train(me, fate, has_given) on each rank, in virtual time on a modelled link. Who needs the
/// lost rank has to be told at once.
template <class Train>
void lose_a_rank(std::uint32_t seed, const Loss& loss, Endings& endings, const Train& train) {
  using namespace std::chrono_literals;
  OpenOptions options;
  options.deadline = 10s;
  options.link = {.bandwidth = 1e7, .alpha = 1us, .delta = loss.delta, .enabled = true};
  const auto body = [&] {
    std::vector<std::unique_ptr<TaskGroup>> groups;
    for (Communicator& one : open("local:" + std::to_string(loss.ranks), options)) {
      const auto rank = static_cast<std::uint32_t>(one.rank());
      groups.push_back(std::make_unique<TaskGroup>());
      groups.back()->go([&, rank, me = std::move(one)]() mutable {
        std::mt19937 pauses(seed + rank);
        std::uint32_t calls = 0;
        const bool is_victim = rank == loss.victim;
        const Fate fate{.goes_on =
                            [&] {
                              sleep_for(std::chrono::nanoseconds(pauses() % 10'000));
                              const bool is_lost = is_victim && calls++ == loss.before_call;
                              if (is_lost && loss.way == Way::kException) throw Lost("lost");
                              return !is_lost || loss.way != Way::kDestruction;
                            },
                        .gives_up =
                            [&] {
                              return is_victim && loss.way == Way::kCompletion &&
                                     calls > loss.before_call;
                            }};
        note(endings.of[rank], [&] { return train(me, fate, endings.has_given[rank]); });
        if (!is_victim) sleep_for(1ms);  // its communicator lives on
      });
    }
    if (loss.way == Way::kCancellation) {
      sleep_for(loss.at);
      groups[loss.victim]->stop();
    }
    for (const auto& one : groups) one->wait();
    EXPECT_LT(leat::support::elapsed(), 1s) << "at once, not at the deadline";
  };
  leat::support::in_virtual_time({.workers = 1 + static_cast<int>(seed % 2), .seed = seed + 1},
                                 body);
}

}  // namespace leat::comm::support
