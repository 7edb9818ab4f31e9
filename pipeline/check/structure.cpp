// Each action is looked at twice: once to note its position, and once to compare it with the
// positions of those that have to be before or after it.

#include "leat/pipeline/check/structure.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

#include "leat/pipeline/text.h"

namespace leat::pipeline {
namespace {

constexpr std::size_t kWithMicrobatch = 10;  // Op::kForward to kWaitSendBackward

/// Where an action is: its number in its row, and its cell. An absent one is after all others.
struct Position {
  std::uint32_t number = UINT32_MAX;
  std::uint32_t column = UINT32_MAX;
  [[nodiscard]] bool is_there() const { return number != UINT32_MAX; }
};

class Checker {
 public:
  explicit Checker(const Schedule& schedule) : schedule_(schedule) {}

  std::vector<Finding> find() && {
    if (schedule_.rows.empty() || schedule_.stages < 1 || schedule_.microbatches < 1) {
      fail(-1, -1,
           "there is nothing to do: " + std::to_string(schedule_.rows.size()) + " ranks, " +
               std::to_string(schedule_.stages) + " stages, " +
               std::to_string(schedule_.microbatches) + " microbatches");
      return std::move(findings_);
    }
    if (!all_in_range() || !all_forwards_there()) return std::move(findings_);
    note_positions();
    each([&](std::size_t row, std::size_t column, Position position, const Action& action) {
      check(row, column, position, action);
    });
    check_missing();
    if (findings_.empty()) check_channels();
    std::ranges::stable_sort(findings_, {},
                             [](const Finding& one) { return std::pair(one.row, one.column); });
    if (findings_.size() > kMostFindings) findings_.resize(kMostFindings);
    return std::move(findings_);
  }

 private:
  /// -1: of no row, of no column.
  template <std::integral Row, std::integral Column>
  void fail(Row row, Column column, std::string reason) {
    // More than are told, so that those told are the first ones of their rows.
    if (findings_.size() < 50 * kMostFindings) {
      findings_.push_back(
          {static_cast<std::int64_t>(row), static_cast<std::int64_t>(column), std::move(reason)});
    }
  }

  template <class Look>
  void each(Look&& look) {
    for (std::size_t row = 0; row < schedule_.rows.size(); ++row) {
      Position position{0, 0};
      for (std::size_t column = 0; column < schedule_.rows[row].size(); ++column) {
        position.column = static_cast<std::uint32_t>(column);
        for (const Action& action : schedule_.rows[row][column]) {
          look(row, column, position, action);
          ++position.number;
        }
      }
    }
  }

  bool all_in_range() {
    each([&](std::size_t row, std::size_t column, Position, const Action& action) {
      const bool is_in = action.stage >= 0 && action.stage < schedule_.stages &&
                         (!has_microbatch(action.op) ||
                          (action.microbatch >= 0 && action.microbatch < schedule_.microbatches));
      if (!is_in) {
        fail(row, column,
             to_string(action) + " is not of " + std::to_string(schedule_.stages) + " stages and " +
                 std::to_string(schedule_.microbatches) + " microbatches");
      }
      is_lowered_ = is_lowered_ || transfers(action.op);
      ++actions_;
    });
    return findings_.empty();
  }

  /// A table of all stages and microbatches is not made for a text that has two great numbers.
  bool all_forwards_there() {
    const auto all = static_cast<std::size_t>(schedule_.stages) *
                     static_cast<std::size_t>(schedule_.microbatches);
    if (all <= 4 * actions_ + 1000) return true;
    std::vector<std::pair<std::int32_t, std::int32_t>> forwards;
    each([&](std::size_t, std::size_t, Position, const Action& action) {
      if (action.op == Op::kForward) forwards.emplace_back(action.stage, action.microbatch);
    });
    std::ranges::sort(forwards);
    for (std::size_t i = 0; findings_.size() < kMostFindings; ++i) {
      const std::pair one(
          static_cast<std::int32_t>(i / static_cast<std::size_t>(schedule_.microbatches)),
          static_cast<std::int32_t>(i % static_cast<std::size_t>(schedule_.microbatches)));
      if (!std::ranges::binary_search(forwards, one)) {
        fail(-1, -1,
             to_string({.stage = one.first, .op = Op::kForward, .microbatch = one.second}) +
                 " is missing");
      }
    }
    return false;
  }

  Position& at(std::int32_t stage, std::int32_t microbatch, Op op) {
    return positions_[static_cast<std::size_t>(stage) *
                          static_cast<std::size_t>(schedule_.microbatches) +
                      static_cast<std::size_t>(microbatch)][static_cast<std::size_t>(op)];
  }
  /// B, or I if it has none.
  Position& input_gradient(std::int32_t stage, std::int32_t microbatch) {
    Position& whole = at(stage, microbatch, Op::kBackward);
    return whole.is_there() ? whole : at(stage, microbatch, Op::kBackwardInput);
  }
  [[nodiscard]] bool is_here(std::size_t row, std::int32_t stage) const {
    return ranks_[static_cast<std::size_t>(stage)] == static_cast<int>(row);
  }

  void note_positions() {
    ranks_ = ranks_of_stages(schedule_);
    positions_.resize(static_cast<std::size_t>(schedule_.stages) *
                      static_cast<std::size_t>(schedule_.microbatches));
    for (std::int32_t s = 0; s < schedule_.stages; ++s) {
      last_.push_back({{}, {.stage = s, .op = Op::kBackward, .microbatch = 0}});
    }
    reduced_.resize(static_cast<std::size_t>(schedule_.stages));
    each([&](std::size_t row, std::size_t column, Position position, const Action& action) {
      if (!is_here(row, action.stage)) {
        fail(row, column,
             to_string(action) + ": stage " + std::to_string(action.stage) + " is on rank " +
                 std::to_string(ranks_[static_cast<std::size_t>(action.stage)]) + ", too");
      }
      if (action.op == Op::kBackward || action.op == Op::kBackwardWeight) {
        last_[static_cast<std::size_t>(action.stage)] = {position, action};
      }
      if (!has_microbatch(action.op)) return;
      Position& noted = at(action.stage, action.microbatch, action.op);
      if (noted.is_there()) {
        fail(
            row, column,
            to_string(action) + " is there twice, first in column " + std::to_string(noted.column));
      } else {
        noted = position;
      }
    });
  }

  /// Fails unless `before` has run when `action` begins.
  void require_before(std::size_t row, std::size_t column, Position position, const Action& action,
                      const Position& before, const Action& needed) {
    if (!before.is_there()) {
      fail(row, column, to_string(action) + " is without " + to_string(needed));
    } else if (before.number >= position.number) {
      fail(row, column, to_string(action) + " is before " + to_string(needed));
    }
  }
  /// Likewise, and in an earlier cell.
  void require_earlier(std::size_t row, std::size_t column, Position position, const Action& action,
                       const Position& before, const Action& needed) {
    if (before.is_there() && before.number < position.number && before.column == position.column) {
      fail(row, column,
           to_string(action) + " is in the cell of " + to_string(needed) +
               ": actions of a cell start together");
    } else {
      require_before(row, column, position, action, before, needed);
    }
  }

  void check(std::size_t row, std::size_t column, Position position, const Action& action) {
    const std::int32_t s = action.stage;
    const std::int32_t m = action.microbatch;
    const auto of = [&](std::int32_t stage, Op op) {
      return Action{.stage = stage, .op = op, .microbatch = m};
    };
    const auto before = [&](std::int32_t stage, Op op) {
      require_before(row, column, position, action, at(stage, m, op), of(stage, op));
    };
    const auto earlier = [&](std::int32_t stage, Op op) {
      require_earlier(row, column, position, action, at(stage, m, op), of(stage, op));
    };
    // The value of the neighbour that this action uses.
    const auto from_neighbour = [&](std::int32_t stage, Op op, Op recv) {
      if (stage < 0 || stage >= schedule_.stages) return;
      if (!is_here(row, stage)) {
        if (is_lowered_) earlier(s, recv);
      } else if (op == Op::kForward) {
        before(stage, op);
      } else {
        const Position& needed_at = input_gradient(stage, m);
        const bool is_whole = at(stage, m, Op::kBackward).is_there();
        require_before(row, column, position, action, needed_at,
                       of(stage, is_whole ? Op::kBackward : Op::kBackwardInput));
      }
    };
    const auto to_neighbour = [&](std::int32_t stage) {
      const bool exists = stage >= 0 && stage < schedule_.stages;
      if (!exists) {
        fail(row, column, to_string(action) + ": there is no stage " + std::to_string(stage));
      } else if (is_here(row, stage)) {
        fail(row, column,
             to_string(action) + ": stage " + std::to_string(stage) + " is on the same rank");
      }
    };
    switch (action.op) {
      case Op::kForward: from_neighbour(s - 1, Op::kForward, Op::kRecvForward); break;
      case Op::kBackward:
      case Op::kBackwardInput:
        before(s, Op::kForward);
        from_neighbour(s + 1, Op::kBackward, Op::kRecvBackward);
        if (action.op == Op::kBackward && at(s, m, Op::kBackwardInput).is_there()) {
          fail(row, column,
               to_string(action) + " and " + to_string(of(s, Op::kBackwardInput)) +
                   " are both there");
        }
        break;
      case Op::kBackwardWeight: before(s, Op::kBackwardInput); break;
      case Op::kSendForward:
        to_neighbour(s + 1);
        earlier(s, Op::kForward);
        break;
      case Op::kSendBackward: {
        to_neighbour(s - 1);
        const bool is_whole = at(s, m, Op::kBackward).is_there();
        earlier(s, is_whole ? Op::kBackward : Op::kBackwardInput);
        break;
      }
      case Op::kRecvForward: to_neighbour(s - 1); break;
      case Op::kRecvBackward: to_neighbour(s + 1); break;
      case Op::kWaitSendForward: before(s, Op::kSendForward); break;
      case Op::kWaitSendBackward: before(s, Op::kSendBackward); break;
      case Op::kReduceGrad:
        require_before(row, column, position, action, last_[static_cast<std::size_t>(s)].first,
                       last_[static_cast<std::size_t>(s)].second);
        if (reduced_[static_cast<std::size_t>(s)]++ > 0) {
          fail(row, column, to_string(action) + " is there twice");
        }
        break;
      case Op::kWaitReduceGrad:
        if (reduced_[static_cast<std::size_t>(s)] == 0) {
          fail(row, column,
               to_string(action) + " is without " +
                   to_string(Action{.stage = s, .op = Op::kReduceGrad}) + " before it");
        }
        break;
      case Op::kUnshard:
      case Op::kReshard: break;
    }
  }

  void check_missing() {
    std::vector<bool> has_stage(schedule_.rows.size());
    for (const int rank : ranks_) {
      if (rank >= 0) has_stage[static_cast<std::size_t>(rank)] = true;
    }
    for (std::size_t row = 0; row < schedule_.rows.size(); ++row) {
      if (!has_stage[row]) fail(static_cast<std::int64_t>(row), -1, "the rank has no stage");
    }
    for (std::int32_t s = 0; s < schedule_.stages; ++s) {
      const std::int64_t row = ranks_[static_cast<std::size_t>(s)];
      if (row < 0) {
        fail(-1, -1, "stage " + std::to_string(s) + " is missing");
        continue;
      }
      const auto crosses = [&](std::int32_t stage) {
        return stage >= 0 && stage < schedule_.stages &&
               ranks_[static_cast<std::size_t>(stage)] != row;
      };
      for (std::int32_t m = 0; m < schedule_.microbatches; ++m) {
        const auto require = [&](bool is_there, Op op) {
          if (!is_there) {
            fail(row, -1, to_string({.stage = s, .op = op, .microbatch = m}) + " is missing");
          }
        };
        const auto there = [&](Op op) { return at(s, m, op).is_there(); };
        require(there(Op::kForward), Op::kForward);
        require(there(Op::kBackward) || there(Op::kBackwardInput), Op::kBackward);
        if (!there(Op::kBackward) && there(Op::kBackwardInput)) {
          require(there(Op::kBackwardWeight), Op::kBackwardWeight);
        }
        if (!is_lowered_) continue;
        if (crosses(s + 1)) require(there(Op::kSendForward), Op::kSendForward);
        if (crosses(s - 1)) require(there(Op::kSendBackward), Op::kSendBackward);
      }
    }
  }

  /// The channels into which an action puts a value, and from which it takes one; -1: none. In an
  /// order, those of the transfers that lowering adds.
  struct ActionChannels {
    std::int32_t to = -1;
    std::int32_t from = -1;
  };
  [[nodiscard]] ActionChannels channels_of(std::size_t row, const Action& action) const {
    if (is_lowered_) {
      if (!transfers(action.op)) return {};
      const std::int32_t channel = channel_of(action);
      return sends(action.op) ? ActionChannels{.to = channel} : ActionChannels{.from = channel};
    }
    const auto with = [&](std::int32_t stage, Op op) {
      const bool crosses = stage >= 0 && stage < schedule_.stages && !is_here(row, stage);
      return crosses ? channel_of({.stage = action.stage, .op = op}) : -1;
    };
    switch (action.op) {
      case Op::kForward:
        return {.to = with(action.stage + 1, Op::kSendForward),
                .from = with(action.stage - 1, Op::kRecvForward)};
      case Op::kBackward:
      case Op::kBackwardInput:
        return {.to = with(action.stage - 1, Op::kSendBackward),
                .from = with(action.stage + 1, Op::kRecvBackward)};
      default: return {};
    }
  }

  /// The k-th value that is taken from a channel is the k-th that was put into it.
  void check_channels() {
    const auto channels = static_cast<std::size_t>(2 * (schedule_.stages - 1));
    std::vector<std::vector<std::int32_t>> sent(channels);
    each([&](std::size_t row, std::size_t, Position, const Action& action) {
      const std::int32_t to = channels_of(row, action).to;
      if (to >= 0) sent[static_cast<std::size_t>(to)].push_back(action.microbatch);
    });
    std::vector<std::size_t> received(channels);
    each([&](std::size_t row, std::size_t column, Position, const Action& action) {
      const std::int32_t from = channels_of(row, action).from;
      if (from < 0) return;
      const auto channel = static_cast<std::size_t>(from);
      const std::int32_t next = sent[channel][received[channel]++];
      if (next != action.microbatch) {
        fail(row, column,
             to_string(action) + ": microbatch " + std::to_string(next) + " is sent before it");
      }
    });
  }

  const Schedule& schedule_;
  std::vector<Finding> findings_;
  bool is_lowered_ = false;
  std::size_t actions_ = 0;
  std::vector<int> ranks_;
  std::vector<std::array<Position, kWithMicrobatch>> positions_;
  std::vector<std::pair<Position, Action>> last_;  // of each stage: its last B or W
  std::vector<int> reduced_;                       // of each stage: its REDUCE_GRADs so far
};

}  // namespace

std::vector<Finding> faults_of(const Schedule& schedule) { return Checker(schedule).find(); }

}  // namespace leat::pipeline
