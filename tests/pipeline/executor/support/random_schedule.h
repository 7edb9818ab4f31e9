// Random schedules that are right: orders that a random worker would find, and cells joined at
// random.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "leat/pipeline/check.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/simulate.h"

namespace leat::pipeline::support {

class RandomSchedules {
 public:
  explicit RandomSchedules(std::uint32_t seed) : random_(seed) {}

  [[nodiscard]] int below(int end) {
    return std::uniform_int_distribution<int>(0, end - 1)(random_);
  }

  /// Up to 4 ranks, 6 stages anywhere on them, and 5 microbatches.
  [[nodiscard]] Schedule order() {
    Schedule schedule;
    const int ranks = 1 + below(4);
    schedule.stages = ranks + below(3);
    schedule.microbatches = 1 + below(5);
    schedule.rows.resize(static_cast<std::size_t>(ranks));
    std::vector<std::size_t> rank_of;
    for (int s = 0; s < schedule.stages; ++s) {
      rank_of.push_back(static_cast<std::size_t>(s < ranks ? s : below(ranks)));
    }
    std::ranges::shuffle(rank_of, random_);
    // How many of F, of B or I, and of W are done, in each stage.
    struct Done {
      std::int32_t forwards = 0;
      std::int32_t inputs = 0;
      std::int32_t weights = 0;
      bool splits = false;
    };
    std::vector<Done> done(static_cast<std::size_t>(schedule.stages));
    for (Done& one : done) one.splits = below(2) == 0;
    for (;;) {
      std::vector<Action> ready;
      for (std::int32_t s = 0; s < schedule.stages; ++s) {
        const Done& one = done[static_cast<std::size_t>(s)];
        const bool is_last = s + 1 == schedule.stages;
        const auto add = [&](Op op, std::int32_t m) {
          ready.push_back({.stage = s, .op = op, .microbatch = m});
        };
        if (one.forwards < schedule.microbatches &&
            (s == 0 || one.forwards < done[static_cast<std::size_t>(s) - 1].forwards)) {
          add(Op::kForward, one.forwards);
        }
        const std::int32_t limit =
            is_last ? one.forwards
                    : std::min(one.forwards, done[static_cast<std::size_t>(s) + 1].inputs);
        if (one.inputs < limit) add(one.splits ? Op::kBackwardInput : Op::kBackward, one.inputs);
        if (one.splits && one.weights < one.inputs) add(Op::kBackwardWeight, one.weights);
      }
      if (ready.empty()) return schedule;
      const Action next = ready[static_cast<std::size_t>(below(static_cast<int>(ready.size())))];
      Done& one = done[static_cast<std::size_t>(next.stage)];
      if (next.op == Op::kForward) ++one.forwards;
      if (next.op == Op::kBackward || next.op == Op::kBackwardInput) ++one.inputs;
      if (next.op == Op::kBackwardWeight) ++one.weights;
      schedule.rows[rank_of[static_cast<std::size_t>(next.stage)]].push_back({next});
    }
  }

  /// Joins neighbouring cells of a lowered schedule, where none uses what the other one makes.
  [[nodiscard]] Schedule joined(Schedule lowered) {
    const auto clash = [](const Action& a, const Action& b) {
      return std::abs(a.stage - b.stage) <= 1 && a.microbatch == b.microbatch;
    };
    for (Row& row : lowered.rows) {
      Row joined;
      for (Cell& cell : row) {
        const bool may_join =
            !joined.empty() && below(2) == 0 &&
            std::ranges::none_of(joined.back(), [&](const Action& a) {
              return std::ranges::any_of(cell, [&](const Action& b) { return clash(a, b); });
            });
        if (may_join) {
          joined.back().insert(joined.back().end(), cell.begin(), cell.end());
        } else {
          joined.push_back(std::move(cell));
        }
      }
      row = std::move(joined);
    }
    return lowered;
  }

  /// Costs of 1 to 9 ticks, and a link of 0 to 4.
  [[nodiscard]] CostModel costs(const Schedule& schedule) {
    CostModel model{.stages = {}, .link = below(5)};
    for (std::int32_t s = 0; s < schedule.stages; ++s) {
      model.stages.push_back({.forward = 1 + below(9),
                              .backward_input = 1 + below(9),
                              .backward_weight = 1 + below(9)});
    }
    return model;
  }

 private:
  std::mt19937 random_;
};

}  // namespace leat::pipeline::support
