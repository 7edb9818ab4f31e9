#include "leat/pipeline/search/chains.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <stdexcept>
#include <string>

namespace leat::pipeline {
namespace {

constexpr Ticks kNever = std::numeric_limits<Ticks>::max() / 4;

[[noreturn]] void refuse_problem(const std::string& why) {
  throw std::invalid_argument("pipeline::search: " + why);
}

// The ranks of a placement are 0 to R - 1, without a gap.
std::size_t number_of_ranks(const SearchProblem& problem) {
  if (problem.rank_of_stage.empty()) refuse_problem("there is no stage");
  std::vector<char> has_stage(problem.rank_of_stage.size(), 0);
  for (const int rank : problem.rank_of_stage) {
    if (rank < 0) refuse_problem("a stage is on rank " + std::to_string(rank));
    if (static_cast<std::size_t>(rank) < has_stage.size()) {
      has_stage[static_cast<std::size_t>(rank)] = 1;
    }
  }
  const auto last = std::ranges::max(problem.rank_of_stage);
  for (int rank = 0; rank <= last; ++rank) {
    if (static_cast<std::size_t>(rank) >= has_stage.size() ||
        has_stage[static_cast<std::size_t>(rank)] == 0) {
      refuse_problem("rank " + std::to_string(rank) + " has no stage");
    }
  }
  return static_cast<std::size_t>(last) + 1;
}

void check_numbers(const SearchProblem& problem) {
  const CostModel& model = problem.model;
  const std::size_t stages = problem.rank_of_stage.size();
  if (problem.microbatches < 1) refuse_problem("there is no microbatch");
  if (stages > (std::size_t{1} << 22) / 3 / static_cast<std::size_t>(problem.microbatches)) {
    refuse_problem("more than 2^22 actions");
  }
  if (model.capacity.has_value()) refuse_problem("channels have to be unbounded");
  if (model.stages.size() != 1 && model.stages.size() != stages) {
    refuse_problem("the model is of " + std::to_string(model.stages.size()) +
                   " stages, the problem of " + std::to_string(stages));
  }
  // No schedule that is worth anything is longer than all actions and transfers in a row.
  const Ticks most = (Ticks{1} << 61) / problem.microbatches / static_cast<Ticks>(stages) / 5;
  const auto check = [&](Ticks time) {
    if (time < 0) refuse_problem("a time is negative");
    if (time > most) refuse_problem("a time is too great");
  };
  check(model.link);
  for (const StageCost& cost : model.stages) {
    check(cost.forward);
    check(cost.backward_input);
    check(cost.backward_weight);
  }
}

}  // namespace

Chains::Chains(const SearchProblem& problem)
    : microbatches_(problem.microbatches), split_(problem.split) {
  const std::size_t ranks = number_of_ranks(problem);
  check_numbers(problem);
  rank_of_.assign(problem.rank_of_stage.begin(), problem.rank_of_stage.end());
  stages_of_.resize(ranks);
  for (std::size_t stage = 0; stage < stages(); ++stage)
    stages_of_[rank_of_[stage]].push_back(stage);

  if (problem.limit.size() != 1 && problem.limit.size() != ranks) {
    refuse_problem(std::to_string(problem.limit.size()) + " limits for " + std::to_string(ranks) +
                   " ranks");
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto own = static_cast<Ticks>(stages_of_[rank].size());
    const Ticks limit = problem.limit.size() == 1 ? problem.limit.front() : problem.limit[rank];
    // The F of the last stage finds its microbatch's activations at all stages.
    if (limit < own) {
      refuse_problem("rank " + std::to_string(rank) + " has " + std::to_string(own) +
                     " stages and a limit of " + std::to_string(limit));
    }
    limit_.push_back(std::min(limit, own * microbatches_));
  }
  add_needs(problem);
  of_rank_.resize(ranks);
  for (std::size_t chain = 0; chain < size(); ++chain) {
    of_rank_[chains_[chain].rank].push_back(chain);
  }
  close();
}

void Chains::add_needs(const SearchProblem& problem) {
  const std::size_t count = stages();
  const auto link = [&](std::size_t a, std::size_t b) {
    return rank_of_[a] == rank_of_[b] ? 0 : problem.model.link;
  };
  const auto add = [&](Op op, std::size_t stage, Ticks length) -> std::vector<Precedence>& {
    chains_.push_back(
        {.op = op, .stage = stage, .rank = rank_of_[stage], .length = length, .needs = {}});
    return chains_.back().needs;
  };
  const auto cost = [&](std::size_t stage) -> const StageCost& {
    return problem.model.of(static_cast<std::int32_t>(stage));
  };
  for (std::size_t stage = 0; stage < count; ++stage) {
    std::vector<Precedence>& needs = add(Op::kForward, stage, cost(stage).forward);
    if (stage > 0) {
      needs.push_back({.chain = forward(stage - 1), .back = 0, .delay = link(stage - 1, stage)});
    }
    const std::vector<std::size_t>& row = stages_of_[rank_of_[stage]];
    const Ticks limit = limit_[rank_of_[stage]];
    // While a microbatch's F is begun, the rank's stages before have an activation of it too.
    const Ticks others = std::ranges::find(row, stage) - row.begin();
    needs.push_back({.chain = frees(stage), .back = limit - others, .delay = 0});
    // fits() (moves.cpp) says why.
    if (stage != row.back()) {
      needs.push_back({.chain = forward(row.back()),
                       .back = limit - static_cast<Ticks>(row.size()) + 1,
                       .delay = 0});
    }
  }
  for (std::size_t stage = count; stage-- > 0;) {
    const StageCost& own = cost(stage);
    std::vector<Precedence>& needs =
        add(split_ ? Op::kBackwardInput : Op::kBackward, stage,
            split_ ? own.backward_input : own.backward_input + own.backward_weight);
    needs.push_back({.chain = forward(stage), .back = 0, .delay = 0});
    if (stage + 1 < count) {
      needs.push_back({.chain = backward(stage + 1), .back = 0, .delay = link(stage, stage + 1)});
    }
  }
  for (std::size_t stage = 0; split_ && stage < count; ++stage) {
    add(Op::kBackwardWeight, stage, cost(stage).backward_weight)
        .push_back({.chain = backward(stage), .back = 0, .delay = 0});
  }
}

// Element k of a chain needs what its needs need: how far back that reaches, over all ranks.
void Chains::close() {
  before_.resize(size());
  behind_.resize(size());
  for (std::size_t chain = 0; chain < size(); ++chain) {
    std::vector<Ticks> back(size(), kNever);
    std::deque<std::size_t> changed = {chain};
    back[chain] = 0;
    while (!changed.empty()) {
      const std::size_t at = changed.front();
      changed.pop_front();
      for (const Precedence& need : chains_[at].needs) {
        if (back[at] + need.back >= back[need.chain]) continue;
        back[need.chain] = back[at] + need.back;
        changed.push_back(need.chain);
      }
    }
    for (const std::size_t other : of_rank_[chains_[chain].rank]) {
      if (back[other] >= microbatches_) continue;
      before_[chain].push_back({.chain = other, .back = back[other]});
      behind_[other].push_back({.chain = chain, .back = back[other]});
    }
  }
}

}  // namespace leat::pipeline
