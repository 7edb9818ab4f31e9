#include "leat/pipeline/search/first.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "leat/pipeline/check.h"
#include "leat/pipeline/kinds.h"
#include "leat/pipeline/search/moves.h"
#include "leat/pipeline/simulate.h"

namespace leat::pipeline {
namespace {

// Which of the elements that could begin is placed: the one with the most to come after it, and
// before that is asked:
enum class Rule : std::uint8_t {
  kOnlyThat,       // nothing
  kBackwardFirst,  // I or B before F before W
  kOldestFirst,    // W last; of the others, that of the oldest microbatch
};

// How far apart microbatches enter the pipeline, in percent of the busiest rank's work for one. As
// soon as they can is quickest if memory allows it; if it does not, activations of microbatches
// that entered early block those that are further on.
constexpr Ticks kPaces[] = {0, 90, 100, 106, 112, 120, 135, 160, 200};

std::tuple<Ticks, Ticks> preference(Rule rule, const Chain& chain, Ticks k, Ticks to_come) {
  switch (rule) {
    case Rule::kBackwardFirst:
      return {chain.op == Op::kBackwardWeight ? 0 : chain.op == Op::kForward ? 1 : 2, to_come};
    case Rule::kOldestFirst:
      return {chain.op == Op::kBackwardWeight ? std::numeric_limits<Ticks>::min() : -k, to_come};
    default: return {0, to_come};
  }
}

// What could be placed next on each rank. Only what a placed element concerns is looked at again.
class Agenda {
 public:
  Agenda(const Chains& chains, const Moves& moves)
      : chains_(chains),
        moves_(moves),
        state_(moves.begin()),
        choices_(chains.ranks()),
        first_(chains.ranks()),
        user_of_(chains.size()) {
    for (std::size_t chain = 0; chain < chains.size(); ++chain)
      user_of_[chain] = chains[chain].rank;
    for (std::size_t user = 0; user < chains.size(); ++user) {
      for (const Precedence& need : chains[user].needs) {
        if (chains[need.chain].rank != chains[user].rank) user_of_[need.chain] = chains[user].rank;
      }
    }
    for (std::size_t rank = 0; rank < chains.ranks(); ++rank) look_at(rank);
  }

  [[nodiscard]] const State& state() const noexcept { return state_; }
  // On the rank of the element that can end first.
  [[nodiscard]] const std::vector<Moves::Move>& choices() const {
    const auto first = std::ranges::min_element(first_, {}, [](const Moves::Move& move) {
      return move.exists() ? move.end : std::numeric_limits<Ticks>::max();
    });
    return choices_[static_cast<std::size_t>(first - first_.begin())];
  }
  void place(const Moves::Move& move) {
    const std::size_t rank = chains_[move.chain].rank;
    const std::size_t user = user_of_[move.chain];
    moves_.place(state_, move);
    look_at(rank);
    if (user != rank) look_at(user);
  }

 private:
  void look_at(std::size_t rank) {
    first_[rank] = {};
    for (const std::size_t chain : chains_.of_rank(rank)) {
      const Moves::Move move = moves_.next(state_, chain);
      if (!move.exists()) continue;
      if (!first_[rank].exists() || move.end < first_[rank].end) first_[rank] = move;
    }
    if (first_[rank].exists()) moves_.choices(state_, first_[rank], choices_[rank]);
  }

  const Chains& chains_;
  const Moves& moves_;
  State state_;
  std::vector<std::vector<Moves::Move>> choices_;  // of each rank
  std::vector<Moves::Move> first_;                 // to end, of each rank
  std::vector<std::size_t> user_of_;               // the rank that needs a chain's values
};

Solution by_rule(const Chains& chains, const Bounds& bounds, Rule rule, Ticks pace) {
  const Moves moves(chains, pace, /*settled=*/false);
  Agenda agenda(chains, moves);
  std::vector<std::size_t> order;
  order.reserve(chains.actions());
  Ticks makespan = 0;
  while (order.size() < chains.actions()) {
    const Moves::Move best =
        *std::ranges::max_element(agenda.choices(), {}, [&](const Moves::Move& move) {
          const Ticks k = agenda.state()[move.chain];
          return preference(rule, chains[move.chain], k,
                            chains[move.chain].length + bounds.tail(move.chain, k));
        });
    agenda.place(best);
    order.push_back(best.chain);
    makespan = std::max(makespan, best.end);
  }
  return {.schedule = schedule_of(chains, order), .makespan = makespan};
}

// A kind's order as one of the problem: one action a cell, its B as I and W if the problem has them
// apart. None: it has another placement, I and W where the problem has B, or too many activations.
std::optional<Solution> by_kind(const SearchProblem& problem, Kind kind) {
  Schedule known;
  const auto ranks = std::ranges::max(problem.rank_of_stage) + 1;
  const auto stages = static_cast<int>(problem.rank_of_stage.size());
  if (stages % ranks != 0) return {};
  try {
    known = make(
        kind,
        {.ranks = ranks, .microbatches = problem.microbatches, .stages_per_rank = stages / ranks});
  } catch (const std::invalid_argument&) {
    return {};  // the kind does not have this shape
  }
  if (ranks_of_stages(known) != problem.rank_of_stage) return {};
  Schedule schedule = {.rows = {}, .stages = known.stages, .microbatches = known.microbatches};
  for (const Row& row : known.rows) {
    Row& own = schedule.rows.emplace_back();
    for (const Cell& cell : row) {
      for (Action action : cell) {
        action.paired = false;
        if (action.op != Op::kForward && !problem.split && action.op != Op::kBackward) return {};
        const bool is_parted = action.op == Op::kBackward && problem.split;
        if (is_parted) action.op = Op::kBackwardInput;
        own.push_back({action});
        if (!is_parted) continue;
        action.op = Op::kBackwardWeight;
        own.push_back({action});
      }
    }
  }
  const std::vector<std::int64_t> peaks = peak_activations(schedule);
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    if (peaks[rank] > problem.limit[problem.limit.size() == 1 ? 0 : rank]) return {};
  }
  const std::optional<std::int64_t> takes = makespan(schedule, problem.model);
  if (!takes.has_value()) return {};
  return Solution{.schedule = std::move(schedule), .makespan = *takes};
}

}  // namespace

Schedule schedule_of(const Chains& chains, const std::vector<std::size_t>& order) {
  Schedule schedule;
  schedule.rows.resize(chains.ranks());
  schedule.stages = static_cast<std::int32_t>(chains.stages());
  schedule.microbatches = static_cast<std::int32_t>(chains.microbatches());
  std::vector<std::int32_t> done(chains.size(), 0);
  for (const std::size_t chain : order) {
    schedule.rows[chains[chain].rank].push_back(
        {{.stage = static_cast<std::int32_t>(chains[chain].stage),
          .op = chains[chain].op,
          .microbatch = done[chain]++}});
  }
  return schedule;
}

Solution first_solution(const SearchProblem& problem, const Chains& chains, const Bounds& bounds,
                        Ticks bound, const std::function<bool()>& is_stopped) {
  Solution best = by_rule(chains, bounds, Rule::kOnlyThat, 0);
  const auto offer = [&](std::optional<Solution> other) {
    if (other.has_value() && other->makespan < best.makespan) best = std::move(*other);
  };
  const auto goes_on = [&] { return best.makespan > bound && !is_stopped(); };
  for (const Kind kind : kinds()) {
    if (goes_on()) offer(by_kind(problem, kind));
  }
  Ticks work = 0;
  for (std::size_t rank = 0; rank < chains.ranks(); ++rank) {
    Ticks own = 0;
    for (const std::size_t chain : chains.of_rank(rank)) own += chains[chain].length;
    work = std::max(work, own);
  }
  for (const Ticks percent : kPaces) {
    const Ticks pace = work / 100 * percent + work % 100 * percent / 100;
    for (const Rule rule : {Rule::kOnlyThat, Rule::kBackwardFirst, Rule::kOldestFirst}) {
      if (!goes_on()) break;
      Solution one = by_rule(chains, bounds, rule, pace);
      // Without the pace, the same order may take less.
      one.makespan = makespan(one.schedule, problem.model).value_or(one.makespan);
      offer(std::move(one));
    }
  }
  return best;
}

}  // namespace leat::pipeline
