#include "leat/pipeline/executor/program.h"

#include <algorithm>
#include <span>
#include <unordered_map>

namespace leat::pipeline {
namespace {

bool is_backward(Op op) {
  return op == Op::kBackward || op == Op::kBackwardInput || op == Op::kBackwardWeight;
}

bool waits_for_send(Op op) { return op == Op::kWaitSendForward || op == Op::kWaitSendBackward; }

/// Gives slots to the microbatches of a row, in the order of its instructions.
class Slots {
 public:
  explicit Slots(std::size_t stages) : free_(stages), needed_(stages) {}

  /// The instruction uses the microbatch's memory at a stage: counted before slots are given.
  void count(std::uint32_t stage, std::int32_t microbatch) { ++uses_[key(stage, microbatch)].left; }
  /// The slot; a free one if the microbatch has none yet.
  [[nodiscard]] std::uint32_t of(std::uint32_t stage, std::int32_t microbatch) {
    Use& use = uses_[key(stage, microbatch)];
    if (use.slot == Instruction::kNone) {
      std::vector<std::uint32_t>& free = free_[stage];
      if (free.empty()) free.push_back(needed_[stage]++);
      use.slot = free.back();
      free.pop_back();
    }
    return use.slot;
  }
  /// One use is over: with the last one the slot is free.
  void end(std::uint32_t stage, std::int32_t microbatch) {
    Use& use = uses_[key(stage, microbatch)];
    if (--use.left == 0) free_[stage].push_back(use.slot);
  }
  [[nodiscard]] std::vector<std::uint32_t> needed() && { return std::move(needed_); }

 private:
  struct Use {
    std::size_t left = 0;
    std::uint32_t slot = Instruction::kNone;
  };
  static std::uint64_t key(std::uint32_t stage, std::int32_t microbatch) {
    return std::uint64_t{stage} << 32 | static_cast<std::uint32_t>(microbatch);
  }

  std::unordered_map<std::uint64_t, Use> uses_;
  std::vector<std::vector<std::uint32_t>> free_;
  std::vector<std::uint32_t> needed_;
};

class Compiler {
 public:
  Compiler(const Schedule& lowered, const std::vector<int>& ranks, std::size_t row)
      : lowered_(lowered), row_(row), own_(stages_of(ranks, row)), slots_(own_.size()) {}

  Program compile() && {
    for (std::size_t column = 0; column < lowered_.rows[row_].size(); ++column) add(column);
    for (const Instruction& one : program_.instructions) {
      for_slots(one, [&](std::uint32_t stage) { slots_.count(stage, one.action.microbatch); });
    }
    for (const Block& block : program_.blocks) give_slots(block);
    program_.slots = std::move(slots_).needed();
    return std::move(program_);
  }

 private:
  static std::vector<std::int32_t> stages_of(const std::vector<int>& ranks, std::size_t row) {
    std::vector<std::int32_t> stages;
    for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
      if (ranks[stage] == static_cast<int>(row)) stages.push_back(static_cast<std::int32_t>(stage));
    }
    return stages;
  }
  /// The index of a stage among the rank's own; kNone: it is elsewhere.
  [[nodiscard]] std::uint32_t index_of(std::int32_t stage) const {
    const auto found = std::ranges::lower_bound(own_, stage);
    if (found == own_.end() || *found != stage) return Instruction::kNone;
    return static_cast<std::uint32_t>(found - own_.begin());
  }

  void add(std::size_t column) {
    std::vector<Instruction>& all = program_.instructions;
    Block block{.first = all.size()};
    for (const Action& action : lowered_.rows[row_][column]) {
      if (waits_for_send(action.op)) continue;  // a Send's cell has waited for it
      all.push_back({.action = action, .column = column, .stage = index_of(action.stage)});
      if (transfers(action.op)) {
        all.back().channel = static_cast<std::uint32_t>(channel_of(action));
      }
    }
    block.end = all.size();
    if (block.first == block.end) return;
    const std::span<Instruction> here(all.data() + block.first, block.end - block.first);
    std::ranges::stable_sort(here, {}, [](const Instruction& one) {
      return transfers(one.action.op) ? std::int64_t{one.channel} : -1;
    });
    block.transfers = block.first;
    while (block.transfers < block.end && !transfers(all[block.transfers].action.op)) {
      ++block.transfers;
    }
    for (std::size_t i = block.transfers; i < block.end; ++i) {
      if (i == block.transfers || all[i].channel != all[i - 1].channel) ++block.lanes;
    }
    if (block.end - block.first == 1) block.lanes = 0;
    program_.lanes = std::max(program_.lanes, block.lanes);
    program_.blocks.push_back(block);
    const bool ends = std::ranges::any_of(here, [](const Instruction& one) {
      return is_backward(one.action.op) || one.action.op == Op::kReduceGrad;
    });
    if (ends) program_.backward_end = program_.blocks.size();
  }

  /// Calls f with each own stage whose slot the instruction uses: its stage's, and, where values
  /// stay on this rank, that of the stage before.
  template <class F>
  void for_slots(const Instruction& one, const F& f) const {
    if (!has_microbatch(one.action.op)) return;
    f(one.stage);
    const bool crosses = one.action.op == Op::kForward || one.action.op == Op::kBackward ||
                         one.action.op == Op::kBackwardInput;
    if (!crosses) return;
    const std::uint32_t before = index_of(one.action.stage - 1);
    if (before != Instruction::kNone) f(before);
  }

  void give(Instruction& one) {
    for_slots(one, [&](std::uint32_t stage) {
      const std::uint32_t slot = slots_.of(stage, one.action.microbatch);
      (stage == one.stage ? one.slot : one.before) = slot;
    });
  }
  void end(const Instruction& one) {
    for_slots(one, [&](std::uint32_t stage) { slots_.end(stage, one.action.microbatch); });
  }
  void give_slots(const Block& block) {
    std::vector<Instruction>& all = program_.instructions;
    for (std::size_t i = block.transfers; i < block.end; ++i) give(all[i]);
    for (std::size_t i = block.first; i < block.transfers; ++i) {
      give(all[i]);
      end(all[i]);
    }
    for (std::size_t i = block.transfers; i < block.end; ++i) end(all[i]);
  }

  const Schedule& lowered_;
  const std::size_t row_;
  const std::vector<std::int32_t> own_;
  Program program_;
  Slots slots_;
};

}  // namespace

Program compile(const Schedule& lowered, const std::vector<int>& ranks, std::size_t row) {
  return Compiler(lowered, ranks, row).compile();
}

Schedule forwards_of(const Schedule& lowered) {
  Schedule forwards = lowered;
  for (Row& row : forwards.rows) {
    for (Cell& cell : row) {
      std::erase_if(cell, [](const Action& one) {
        return one.op != Op::kForward && one.op != Op::kSendForward && one.op != Op::kRecvForward &&
               one.op != Op::kUnshard && one.op != Op::kReshard;
      });
      for (Action& one : cell) one.paired = false;
    }
  }
  return forwards;
}

Schedule with_reductions(Schedule lowered) {
  const auto has = [](const Row& row, std::int32_t stage, Op op) {
    return std::ranges::any_of(row, [&](const Cell& cell) {
      return std::ranges::any_of(
          cell, [&](const Action& one) { return one.stage == stage && one.op == op; });
    });
  };
  const std::vector<int> ranks = ranks_of_stages(lowered);
  for (std::int32_t stage = 0; stage < lowered.stages; ++stage) {
    Row& row = lowered.rows[static_cast<std::size_t>(ranks[static_cast<std::size_t>(stage)])];
    if (!has(row, stage, Op::kReduceGrad)) {
      const auto last = std::find_if(row.rbegin(), row.rend(), [&](const Cell& cell) {
        return std::ranges::any_of(
            cell, [&](const Action& one) { return one.stage == stage && is_backward(one.op); });
      });
      row.insert(last.base(), {{.stage = stage, .op = Op::kReduceGrad}});
    }
  }
  for (std::int32_t stage = 0; stage < lowered.stages; ++stage) {
    Row& row = lowered.rows[static_cast<std::size_t>(ranks[static_cast<std::size_t>(stage)])];
    if (!has(row, stage, Op::kWaitReduceGrad)) {
      row.push_back({{.stage = stage, .op = Op::kWaitReduceGrad}});
    }
  }
  return lowered;
}

}  // namespace leat::pipeline
