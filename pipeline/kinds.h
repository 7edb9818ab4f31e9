// The well-known schedules, as orders without Sends and Recvs.
//
// B microbatches, R ranks, v stages for each rank. Stage s is on rank s mod R. For zbv and
// dualpipe_v, with v = 2, rank r has stages r and 2 R - 1 - r.
//
//  - gpipe, v = 1: Huang et al., GPipe, NeurIPS'19
//  - one_f_one_b, v = 1: Narayanan et al., PipeDream, SOSP'19; Megatron-LM's 1F1B
//  - onnx_1f1b, v = 1: ONNX Runtime's compute table (onnx_1f1b.h), with its idle cells
//  - interleaved_1f1b, v >= 2: Narayanan et al., Megatron-LM, SC'21
//  - looped_bfs, v >= 1: Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys'23
//  - zero_bubble, v >= 1: Qi et al., Zero Bubble Pipeline Parallelism, ICLR'24: ZB-H1
//  - zero_bubble_h2, v = 1: the same: ZB-H2
//  - zbv, v = 2: the same: ZB-V
//  - dualpipe_v, v = 2: DeepSeek-V3's DualPipe, folded: DualPipeV
//
// All but one_f_one_b, onnx_1f1b and zero_bubble_h2 are in torch.distributed.pipelining, too, and
// have its order here, action for action.
//
// Everything here is thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "leat/pipeline/schedule.h"

namespace leat::pipeline {

/// The kinds of the list above.
enum class Kind : std::uint8_t {
  kGpipe,
  kOneFOneB,
  kOnnx1F1B,
  kInterleaved1F1B,
  kLoopedBfs,
  kZeroBubble,
  kZeroBubbleH2,
  kZbv,
  kDualPipeV,
};
/// All of them, in the list's order.
[[nodiscard]] std::span<const Kind> kinds() noexcept;
/// The name in the list: "one_f_one_b".
[[nodiscard]] std::string_view name(Kind kind) noexcept;
/// The kind with that name, or none.
[[nodiscard]] std::optional<Kind> kind_named(std::string_view name) noexcept;

/// How large a schedule is.
struct ScheduleShape {
  std::int32_t ranks = 1;
  std::int32_t microbatches = 1;
  /// 0: the least that the kind has.
  std::int32_t stages_per_rank = 0;
};

/// The order of a kind. Every stage computes the microbatches in the same order forward and
/// backward, 0 to B - 1; looped_bfs's backwards go from B - 1 to 0. Any number of microbatches will
/// do, except:
///  - interleaved_1f1b, and zero_bubble with v >= 2, go in max(1, floor(B / R)) rounds of equal
///    length;
///  - dualpipe_v has at least 2 R.
/// Throws std::invalid_argument, saying what is possible, for a shape that the kind does not have,
/// for more than 2^20 stages or microbatches, and for more than 2^26 actions or cells.
[[nodiscard]] Schedule make(Kind kind, const ScheduleShape& shape);

}  // namespace leat::pipeline
