// Schedules: who computes and sends what, in which order, as data.
//
// Example
//   leat::pipeline::Schedule order = make(Kind::kOneFOneB, {.ranks = 4, .microbatches = 8});
//   std::cout << to_grid(order);                       // text.h
//   leat::pipeline::Schedule whole = lower(order);     // check.h: with its Sends and Recvs
//
// A model is cut into stages, 0 to S - 1, and a batch into microbatches, 0 to B - 1. A schedule has
// one row for each rank, and a row is a list of cells. A rank starts all actions of a cell
// together: it computes one after another, beside the transfers, and goes on to its next cell when
// all are done.
//
// Values cross from stage s to stage s + 1 (forward) and back (gradients) through channels: one
// FIFO for each boundary of stages and each direction. Stages of one rank need none.
//
// A *lowered* schedule has Sends and Recvs. An *order* has none.
//
// These are plain values: as thread-safe as a std::vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace leat::pipeline {

/// What an action does. The letters are those of text.h.
enum class Op : std::uint8_t {
  kForward,           ///< F: from the stage's input to its output
  kBackward,          ///< B: the whole backward, I and then W
  kBackwardInput,     ///< I: the gradient of the input
  kBackwardWeight,    ///< W: the gradient of the weights
  kSendForward,       ///< SEND_F: the output to the next stage
  kRecvForward,       ///< RECV_F: the input from the stage before
  kSendBackward,      ///< SEND_B: the input's gradient to the stage before
  kRecvBackward,      ///< RECV_B: the output's gradient from the next stage
  kWaitSendForward,   ///< WAIT_SEND_F: after its Send; takes no time
  kWaitSendBackward,  ///< WAIT_SEND_B: after its Send; takes no time
  kUnshard,           ///< UNSHARD: makes the weights whole. This and the rest have no microbatch
  kReshard,           ///< RESHARD
  kReduceGrad,        ///< REDUCE_GRAD: the stage's gradients may be exchanged
  kWaitReduceGrad,    ///< WAIT_REDUCE_GRAD: they have been
};

/// F, B, I or W.
[[nodiscard]] constexpr bool computes(Op op) noexcept { return op <= Op::kBackwardWeight; }
/// A Send or a Recv.
[[nodiscard]] constexpr bool transfers(Op op) noexcept {
  return op >= Op::kSendForward && op <= Op::kRecvBackward;
}
/// A Send.
[[nodiscard]] constexpr bool sends(Op op) noexcept {
  return op == Op::kSendForward || op == Op::kSendBackward;
}
/// Whether an action of this kind has a microbatch.
[[nodiscard]] constexpr bool has_microbatch(Op op) noexcept { return op < Op::kUnshard; }

/// One action.
struct Action {
  std::int32_t stage = 0;
  Op op = Op::kForward;
  /// Whether it is torch's OVERLAP_F_B with the action after it in its cell: a forward and a
  /// backward of two microbatches.
  bool paired = false;
  std::int32_t microbatch = -1;  ///< -1: none
  friend bool operator==(const Action&, const Action&) = default;
};

/// Actions that start together, in the order in which they compute. Empty: idle.
using Cell = std::vector<Action>;
/// What a rank does.
using Row = std::vector<Cell>;

/// A schedule. Any combination of values is one; check() (check.h) tells what is wrong with it.
struct Schedule {
  std::vector<Row> rows;          ///< one for each rank
  std::int32_t stages = 0;        ///< S
  std::int32_t microbatches = 0;  ///< B
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// Something that is wrong, and where.
struct Finding {
  std::int64_t row = -1;     ///< in the text or the schedule, from 0; -1: none
  std::int64_t column = -1;  ///< the cell, from 0; -1: none
  std::string reason;
  friend bool operator==(const Finding&, const Finding&) = default;
};
/// How many findings are told at most.
inline constexpr std::size_t kMostFindings = 20;
/// "row 2, column 5: 1F0 is there twice"; one line for each finding, with `file` in front if it is
/// not empty. If there are kMostFindings, the last line says that there may be more.
[[nodiscard]] std::string to_string(const std::vector<Finding>& findings,
                                    const std::string& file = {});

/// The rank of each stage: the first row with an action of the stage; -1 if no row has one.
[[nodiscard]] std::vector<int> ranks_of_stages(const Schedule& schedule);
/// Whether the schedule has a Send or a Recv.
[[nodiscard]] bool is_lowered(const Schedule& schedule) noexcept;

/// Names the channel that a transfer goes through: 2 s from stage s to s + 1, 2 s + 1 back from
/// s + 1 to s. In a checked schedule it is from 0 to 2 S - 3.
[[nodiscard]] constexpr std::int32_t channel_of(const Action& action) noexcept {
  switch (action.op) {
    case Op::kSendForward: return 2 * action.stage;
    case Op::kRecvForward: return 2 * (action.stage - 1);
    case Op::kSendBackward: return 2 * (action.stage - 1) + 1;
    default: return 2 * action.stage + 1;
  }
}

}  // namespace leat::pipeline
