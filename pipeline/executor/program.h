// What a rank runs: a row of a lowered schedule, worked out once.
//
// A microbatch has a slot of a stage's memory from its first action there to its last one: from
// RECV_F or F to the last of B, W and SEND_B. The order alone decides which slot it is, so the slot
// is known before the first step.
//
// Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/pipeline/schedule.h"

namespace leat::pipeline {

/// An action, with what it uses.
struct Instruction {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  Action action;
  std::size_t column = 0;        ///< its cell
  std::uint32_t stage = 0;       ///< of the rank's own stages
  std::uint32_t slot = kNone;    ///< of the microbatch, if there is one
  std::uint32_t before = kNone;  ///< its slot at the stage before, if that is on this rank
  std::uint32_t channel = 0;     ///< of a transfer: channel_of()
};

/// What starts together.
struct Block {
  std::size_t first = 0;      ///< its instructions: first those that do not transfer,
  std::size_t transfers = 0;  ///< then those that do, channel by channel
  std::size_t end = 0;
  /// How many channels have transfers beside other work; 0: one instruction after the other.
  std::size_t lanes = 0;
};

/// A row.
struct Program {
  std::vector<Instruction> instructions;
  std::vector<Block> blocks;
  std::vector<std::uint32_t> slots;  ///< of each of the rank's stages: how many it needs
  std::size_t lanes = 0;             ///< the most of a block
  std::size_t backward_end = 0;      ///< the number of blocks up to the last B, W and REDUCE_GRAD
};

/// Works out a row. `ranks` are those of stages (ranks_of_stages). The schedule has passed check().
[[nodiscard]] Program compile(const Schedule& lowered, const std::vector<int>& ranks,
                              std::size_t row);

/// The lowered schedule's forwards, with their transfers, UNSHARD and RESHARD: what evaluates. It
/// needs no more places than the whole schedule, since only a part of it waits.
[[nodiscard]] Schedule forwards_of(const Schedule& lowered);

/// Adds REDUCE_GRAD behind the last B or W of each stage that has none, and WAIT_REDUCE_GRAD at the
/// row's end.
[[nodiscard]] Schedule with_reductions(Schedule lowered);

}  // namespace leat::pipeline
