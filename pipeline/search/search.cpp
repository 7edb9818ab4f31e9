// The shortest schedule: from below and from above until both meet.
#include "leat/pipeline/search.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "leat/pipeline/search/beam.h"
#include "leat/pipeline/search/bounds.h"
#include "leat/pipeline/search/chains.h"
#include "leat/pipeline/search/first.h"
#include "leat/pipeline/search/moves.h"

namespace leat::pipeline {
namespace {

constexpr std::size_t kFirstWidth = 16;
constexpr std::size_t kWiden = 8;

// One stage a rank: each microbatch makes the trip from its F at a stage to the end of its I there,
// and at most `most` of them are on it at once.
Ticks bound_of_trips(const Chains& chains, Ticks link) {
  Ticks bound = 0;
  Ticks head = 0;
  Ticks back = 0;  // from the end of I to the end of all; the last W is that of stage 0
  const Ticks count = chains.microbatches();
  for (std::size_t stage = 0; stage < chains.stages(); ++stage) {
    const auto f = [&](std::size_t s) { return chains[Chains::forward(s)].length; };
    const auto i = [&](std::size_t s) { return chains[chains.backward(s)].length; };
    const auto w = [&](std::size_t s) {
      return chains.frees(s) == chains.backward(s) ? 0 : chains[chains.frees(s)].length;
    };
    Ticks trip = f(stage);
    for (std::size_t s = stage + 1; s < chains.stages(); ++s) trip += f(s) + i(s) + 2 * link;
    const Ticks most = std::min(chains.limit(chains[stage].rank), count);
    bound = std::max(bound, head + std::max<Ticks>(0, trip - most * f(stage)) +
                                count * (f(stage) + i(stage) + w(stage)));
    bound = std::max(bound, head + (count - 1) / most * (trip + i(stage) + w(stage)) +
                                (count - 1) % most * f(stage) + trip + i(stage) +
                                std::max(w(stage), stage == 0 ? 0 : w(0) + back));
    head += f(stage) + link;
    back += i(stage) + link;
  }
  return bound;
}

Ticks bound_without_search(const Chains& chains, const Moves& moves, Bounds& bounds, Ticks link) {
  const Ticks bound = bounds.of(moves.begin(), std::numeric_limits<Ticks>::max());
  return chains.ranks() < chains.stages() ? bound : std::max(bound, bound_of_trips(chains, link));
}

// Raises `bound` and improves `best` until they meet or nothing may be spent any more.
void close_gap(const Chains& chains, Beam& beam, Solution& best, Ticks& bound) {
  const auto take = [&] {
    best = {.schedule = schedule_of(chains, beam.found()), .makespan = beam.makespan()};
  };
  for (std::size_t width = kFirstWidth; bound < best.makespan; width *= kWiden) {
    // From below, in growing steps: what is far below the optimum is soon known to be impossible.
    Ticks step = 1;
    while (bound < best.makespan) {
      const Ticks target = std::min(bound + step, best.makespan) - 1;
      const Outcome outcome = beam.run(target, width);
      if (outcome == Outcome::kStopped) return;
      if (outcome == Outcome::kFound) {
        take();
        step = 1;
      } else if (outcome == Outcome::kNone) {
        bound = std::min(std::max(target + 1, beam.next_bound()), best.makespan);
        step *= 2;
      } else if (step > 1) {
        step = 1;
      } else {
        break;
      }
    }
    // From above.
    while (bound < best.makespan) {
      const Outcome outcome = beam.run(best.makespan - 1, width);
      if (outcome == Outcome::kStopped) return;
      if (outcome == Outcome::kCut) break;
      if (outcome == Outcome::kNone) bound = best.makespan;
      if (outcome == Outcome::kFound) take();
    }
  }
}

}  // namespace

SearchResult search(const SearchProblem& problem, const SearchOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const Chains chains(problem);
  const Moves moves(chains);
  Bounds bounds(chains, moves);
  Ticks bound = bound_without_search(chains, moves, bounds, problem.model.link);
  const auto is_stopped = [&] {
    return options.stop.stop_requested() ||
           std::chrono::steady_clock::now() - begin >= options.time;
  };
  Solution best = first_solution(problem, chains, bounds, bound, is_stopped);
  Beam beam(chains, moves, bounds, options.memory_bytes, is_stopped);
  close_gap(chains, beam, best, bound);
  return {.schedule = std::move(best.schedule), .makespan = best.makespan, .bound = bound};
}

std::int64_t lower_bound(const SearchProblem& problem) {
  const Chains chains(problem);
  const Moves moves(chains);
  Bounds bounds(chains, moves);
  return bound_without_search(chains, moves, bounds, problem.model.link);
}

}  // namespace leat::pipeline
