#include "leat/pipeline/kinds.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "leat/pipeline/kinds/onnx_table.h"
#include "leat/pipeline/kinds/orders.h"
#include "leat/pipeline/text.h"

namespace leat::pipeline {
namespace {

constexpr std::int32_t kAnyDepth = kGreatestNumber;

struct Description {
  Kind kind;
  std::string_view name;
  std::int32_t least_depth;  // stages per rank
  std::int32_t most_depth;
};
constexpr std::array kDescriptions = {
    Description{Kind::kGpipe, "gpipe", 1, 1},
    Description{Kind::kOneFOneB, "one_f_one_b", 1, 1},
    Description{Kind::kOnnx1F1B, "onnx_1f1b", 1, 1},
    Description{Kind::kInterleaved1F1B, "interleaved_1f1b", 2, kAnyDepth},
    Description{Kind::kLoopedBfs, "looped_bfs", 1, kAnyDepth},
    Description{Kind::kZeroBubble, "zero_bubble", 1, kAnyDepth},
    Description{Kind::kZeroBubbleH2, "zero_bubble_h2", 1, 1},
    Description{Kind::kZbv, "zbv", 2, 2},
    Description{Kind::kDualPipeV, "dualpipe_v", 2, 2},
};
constexpr std::array kKinds = [] {
  std::array<Kind, kDescriptions.size()> kinds{};
  std::ranges::transform(kDescriptions, kinds.begin(), &Description::kind);
  return kinds;
}();

const Description& description(Kind kind) noexcept {
  return kDescriptions[static_cast<std::size_t>(kind)];
}

[[noreturn]] void refuse_shape(Kind kind, const std::string& what) {
  throw std::invalid_argument("leat: " + std::string(name(kind)) + ": " + what);
}

bool goes_in_rounds(Kind kind, std::int32_t depth) noexcept {
  return kind == Kind::kInterleaved1F1B || (kind == Kind::kZeroBubble && depth > 1);
}

std::int32_t rounds(const ScheduleShape& shape) noexcept {
  return std::max(1, shape.microbatches / shape.ranks);
}

// Cells that are written, or, of what is dropped, would be.
std::int64_t cells_of(Kind kind, const ScheduleShape& shape) noexcept {
  const std::int64_t ranks = shape.ranks;
  const std::int64_t microbatches = shape.microbatches;
  switch (kind) {
    case Kind::kOnnx1F1B: return ranks * 2 * (ranks + microbatches - 1);
    case Kind::kZbv: return 6 * ranks * std::max(2 * ranks - 1, microbatches);
    case Kind::kZeroBubble:
    case Kind::kZeroBubbleH2: return 3 * ranks * shape.stages_per_rank * microbatches;
    default: return 2 * ranks * shape.stages_per_rank * microbatches;
  }
}

ScheduleShape checked_shape(Kind kind, ScheduleShape shape) {
  const Description& d = description(kind);
  const std::string most = std::to_string(kGreatestNumber + 1);
  if (shape.ranks < 1) refuse_shape(kind, std::to_string(shape.ranks) + " ranks; at least 1");
  if (shape.microbatches < 1 || shape.microbatches > kGreatestNumber + 1) {
    refuse_shape(kind, std::to_string(shape.microbatches) + " microbatches; 1 to " + most);
  }
  if (shape.stages_per_rank == 0) shape.stages_per_rank = d.least_depth;
  if (shape.stages_per_rank < d.least_depth || shape.stages_per_rank > d.most_depth) {
    refuse_shape(kind, std::to_string(shape.stages_per_rank) + " stages per rank; " +
                           (d.least_depth == d.most_depth ? "exactly " : "at least ") +
                           std::to_string(d.least_depth));
  }
  if (std::int64_t{shape.ranks} * shape.stages_per_rank > kGreatestNumber + 1) {
    refuse_shape(kind, std::to_string(shape.ranks) + " ranks of " +
                           std::to_string(shape.stages_per_rank) + " stages; at most " + most +
                           " stages in all");
  }
  if (cells_of(kind, shape) > orders::kMostCells) {
    refuse_shape(kind, std::to_string(cells_of(kind, shape)) + " cells for " +
                           std::to_string(shape.ranks) + " ranks and " +
                           std::to_string(shape.microbatches) + " microbatches; at most " +
                           std::to_string(orders::kMostCells));
  }
  if (goes_in_rounds(kind, shape.stages_per_rank)) {
    const std::int32_t least = rounds(shape) * shape.ranks;
    const std::int32_t over = shape.microbatches % rounds(shape);
    if (over != 0) {
      const std::int32_t fewer = shape.microbatches - over;
      refuse_shape(kind, std::to_string(shape.microbatches) + " microbatches on " +
                             std::to_string(shape.ranks) + " ranks do not divide into " +
                             std::to_string(rounds(shape)) + " equal rounds; " +
                             std::to_string(fewer) + " or " +
                             std::to_string(std::min(fewer + rounds(shape), least + shape.ranks)) +
                             " do");
    }
  }
  if (kind == Kind::kDualPipeV && shape.microbatches < 2 * shape.ranks) {
    refuse_shape(kind, std::to_string(shape.microbatches) + " microbatches on " +
                           std::to_string(shape.ranks) + " ranks; at least two for each rank, " +
                           std::to_string(2 * shape.ranks));
  }
  return shape;
}

Row row_of(Kind kind, const ScheduleShape& shape, std::int32_t rank) {
  const std::int32_t behind = shape.ranks - 1 - rank;
  const bool in_rounds = goes_in_rounds(kind, shape.stages_per_rank);
  const std::int32_t group = in_rounds ? shape.microbatches / rounds(shape) : 1;
  const std::int32_t filled = (shape.stages_per_rank - 1) * group;  // all stages but the last
  switch (kind) {
    case Kind::kGpipe: return orders::breadth_first(shape, rank, false);
    case Kind::kLoopedBfs: return orders::breadth_first(shape, rank, true);
    case Kind::kOneFOneB: return orders::alternating(shape, rank, {.warmup = behind});
    case Kind::kInterleaved1F1B:
      return orders::alternating(shape, rank, {.group = group, .warmup = filled + 2 * behind});
    case Kind::kZeroBubble:
      return orders::alternating(
          shape, rank,
          {.group = group, .warmup = filled + behind, .splits = true, .weights_lag = rank});
    case Kind::kZeroBubbleH2:
      return orders::alternating(shape, rank,
                                 {.warmup = 2 * behind, .splits = true, .weights_lag = 2 * rank});
    case Kind::kZbv: return orders::zbv(shape, rank);
    case Kind::kDualPipeV: return orders::dualpipe_v(shape, rank);
    case Kind::kOnnx1F1B: break;  // its rows are made together, by make()
  }
  return {};
}

}  // namespace

std::span<const Kind> kinds() noexcept { return kKinds; }

std::string_view name(Kind kind) noexcept { return description(kind).name; }

std::optional<Kind> kind_named(std::string_view name) noexcept {
  const auto found = std::ranges::find(kDescriptions, name, &Description::name);
  if (found == kDescriptions.end()) return std::nullopt;
  return found->kind;
}

Schedule make(Kind kind, const ScheduleShape& wanted) {
  const ScheduleShape shape = checked_shape(kind, wanted);
  Schedule schedule{.rows = {},
                    .stages = shape.ranks * shape.stages_per_rank,
                    .microbatches = shape.microbatches};
  if (kind == Kind::kOnnx1F1B) {
    schedule.rows = orders::onnx_rows(orders::onnx_table(shape.microbatches, shape.ranks));
    return schedule;
  }
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    schedule.rows.push_back(row_of(kind, shape, rank));
  }
  return schedule;
}

}  // namespace leat::pipeline
