#include "leat/csp/explore.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "leat/csp/explore/simulation.h"
#include "leat/csp/explore/strategies.h"

namespace leat {
namespace {

std::string to_text(int workers, const Decisions& decisions) {
  std::string text = "w" + std::to_string(workers);
  for (const auto& [index, choice] : decisions) {
    text += " " + std::to_string(index) + "=" + std::to_string(choice);
  }
  return text;
}

// The inverse of to_text(). Throws std::invalid_argument if `text` is not a schedule.
Decisions from_text(std::string_view text, int& workers) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto expect = [&](char c) {
    if (at == end || *at != c) {
      throw std::invalid_argument("leat: replay: not a schedule: \"" + std::string(text) + "\"");
    }
    ++at;
  };
  const auto number = [&](auto& value) {
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc{}) expect('0');
    at = rest;
  };
  Decisions decisions;
  expect('w');
  number(workers);
  while (at != end) {
    std::pair<std::uint64_t, std::size_t> decision;
    expect(' ');
    number(decision.first);
    expect('=');
    number(decision.second);
    decisions.push_back(decision);
  }
  return decisions;
}

// The explored function with its options: how the first thread runs it.
class Program {
 public:
  Program(UniqueFunction<void()>& f, const ExploreOptions& options) : f_(f), options_(options) {}

  std::string run(Simulation& simulation, Strategy& strategy, int workers) {
    return simulation.run(
        [this, workers] {
          try {
            if (workers == 0) {
              f_();
            } else {
              leat::run([this] { f_(); }, {.workers = workers, .deadlock_after = Duration::zero()});
            }
          } catch (...) {
            if (!options_.expected || !options_.expected(std::current_exception())) throw;
          }
        },
        strategy);
  }

 private:
  UniqueFunction<void()>& f_;
  const ExploreOptions& options_;
};

// Removes from a failing schedule the decisions that the same failure does not need: first halves,
// then quarters, and so on. Every try that fails again leaks a run, hence the bound.
Decisions shortened(Program& program, Simulation& simulation, int workers,
                    const std::string& failure, Decisions decisions) {
  int tries = 200;
  for (std::size_t piece = decisions.size(); piece > 0; piece /= 2) {
    for (std::size_t at = 0; at < decisions.size() && tries > 0; --tries) {
      const auto from = decisions.begin() + static_cast<std::ptrdiff_t>(at);
      const auto to = from + static_cast<std::ptrdiff_t>(std::min(piece, decisions.size() - at));
      Decisions fewer(decisions.begin(), from);
      fewer.insert(fewer.end(), to, decisions.end());
      Replay replay(fewer);
      if (program.run(simulation, replay, workers) == failure) {
        decisions = simulation.decisions();
      } else {
        at += piece;
      }
    }
  }
  return decisions;
}

}  // namespace

ExploreResult explore_program(UniqueFunction<void()> program, const ExploreOptions& options) {
  Simulation simulation(options.max_steps);
  Program runs(program, options);
  Sampling sampling(options.seed);
  Exhaustive exhaustive(options.preemptions);
  Strategy& strategy = options.exhaustive ? static_cast<Strategy&>(exhaustive) : sampling;
  ExploreResult result;
  std::uint64_t choices = 0;
  for (;;) {
    if (!options.exhaustive) sampling.begin(choices);
    result.failure = runs.run(simulation, strategy, options.workers);
    ++result.schedules;
    choices = std::max(choices, simulation.choices());
    result.longest = std::max(result.longest, simulation.steps());
    if (!result.failure.empty()) break;
    if (options.exhaustive && !exhaustive.next()) {
      result.complete = true;
      break;
    }
    if (result.schedules >= options.schedules) break;
  }
  if (result) return result;
  Decisions decisions = simulation.decisions();
  if (!options.exhaustive) {
    decisions = shortened(runs, simulation, options.workers, result.failure, std::move(decisions));
  }
  result.schedule = to_text(options.workers, decisions);
  if (!options.quiet) {
    std::fprintf(stderr, "leat: explore: schedule %llu fails: %s\n  replay: %s\n",
                 static_cast<unsigned long long>(result.schedules), result.failure.c_str(),
                 result.schedule.c_str());
  }
  return result;
}

ExploreResult replay_program(UniqueFunction<void()> program, std::string_view schedule,
                             const ExploreOptions& options) {
  int workers = 0;
  Replay strategy(from_text(schedule, workers));
  Simulation simulation(options.max_steps);
  ExploreResult result;
  result.failure = Program(program, options).run(simulation, strategy, workers);
  result.schedule = std::string(schedule);
  result.schedules = 1;
  result.longest = simulation.steps();
  return result;
}

}  // namespace leat
