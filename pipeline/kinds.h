// The well-known schedules, as orders without Sends and Recvs.
//
// B microbatches, R ranks, v stages for each rank. Stage s is on rank s mod R; of zbv and
// dualpipe_v, with v = 2, rank r has stages r and 2 R - 1 - r.
//
// | name | v | source |
// |---|---|---|
// | gpipe | 1 | Huang et al., GPipe, NeurIPS'19 |
// | one_f_one_b | 1 | Narayanan et al., PipeDream, SOSP'19; Megatron-LM's 1F1B |
// | onnx_1f1b | 1 | ONNX Runtime's table (onnx_1f1b.h), with its idle cells |
// | interleaved_1f1b | 2 and more | Narayanan et al., Megatron-LM, SC'21 |
// | looped_bfs | 1 and more | Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys'23 |
// | zero_bubble | 1 and more | Qi et al., Zero Bubble Pipeline Parallelism, ICLR'24: ZB-H1; v >= 2
// as in torch | | zero_bubble_h2 | 1 | the same: ZB-H2 | | zbv | 2 | the same: ZB-V | | dualpipe_v
// | 2 | DeepSeek-V3's DualPipe, folded (DualPipeV) |
//
// Everything here is thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "leat/pipeline/schedule.h"

namespace leat::pipeline {

/// The kinds of the table above.
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
/// All of them, in the table's order.
[[nodiscard]] std::span<const Kind> kinds() noexcept;
/// The name in the table: "one_f_one_b".
[[nodiscard]] std::string_view name(Kind kind) noexcept;
/// The kind with a name; none: there is none.
[[nodiscard]] std::optional<Kind> kind_named(std::string_view name) noexcept;

/// How large a schedule is.
struct ScheduleShape {
  std::int32_t ranks = 1;
  std::int32_t microbatches = 1;
  /// 0: the least that the kind has.
  std::int32_t stages_per_rank = 0;
};

/// The order of a kind. Throws std::invalid_argument, saying what is possible, for a shape that the
/// kind does not have, and for one with more than 2^26 actions.
[[nodiscard]] Schedule make(Kind kind, const ScheduleShape& shape);

}  // namespace leat::pipeline
