// The kinds whose stage s is on rank s mod R.
//
// Microbatches pass a rank in rounds: the microbatches of a round go through the rank's first
// stage, then through its second, and so on; then the next round comes. The backwards pass
// likewise, from the rank's last stage to the first.
#include <algorithm>
#include <cstddef>

#include "leat/pipeline/kinds/orders.h"

namespace leat::pipeline::orders {
namespace {

void add(Row& row, std::int32_t stage, Op op, std::int32_t microbatch) {
  row.emplace_back(1, Action{.stage = stage, .op = op, .microbatch = microbatch});
}

}  // namespace

Row breadth_first(const ScheduleShape& shape, std::int32_t rank, bool last_first) {
  const auto [ranks, microbatches, depth] = shape;
  Row row;
  row.reserve(std::size_t{2} * static_cast<std::size_t>(depth * microbatches));
  for (std::int32_t nth = 0; nth < depth; ++nth) {
    for (std::int32_t m = 0; m < microbatches; ++m) add(row, nth * ranks + rank, Op::kForward, m);
  }
  for (std::int32_t nth = depth - 1; nth >= 0; --nth) {
    for (std::int32_t m = 0; m < microbatches; ++m) {
      add(row, nth * ranks + rank, Op::kBackward, last_first ? microbatches - 1 - m : m);
    }
  }
  return row;
}

Row alternating(const ScheduleShape& shape, std::int32_t rank, const Alternation& alternation) {
  const std::int32_t ranks = shape.ranks;
  const std::int32_t depth = shape.stages_per_rank;
  const std::int32_t group = alternation.group;
  const std::int32_t passes = depth * shape.microbatches;
  const std::int32_t warmup = std::min(passes, alternation.warmup);
  Row row;
  row.reserve(std::size_t{alternation.splits ? 3U : 2U} * static_cast<std::size_t>(passes));
  const auto microbatch = [&](std::int32_t pass) {
    return pass / (group * depth) * group + pass % group;
  };
  const auto forward = [&](std::int32_t pass) {
    add(row, pass / group % depth * ranks + rank, Op::kForward, microbatch(pass));
  };
  const auto backward = [&](std::int32_t pass, Op op) {
    add(row, (depth - 1 - pass / group % depth) * ranks + rank, op, microbatch(pass));
  };
  for (std::int32_t pass = 0; pass < warmup; ++pass) forward(pass);
  std::int32_t weights = 0;
  for (std::int32_t pass = 0; pass < passes; ++pass) {
    if (warmup + pass < passes) forward(warmup + pass);
    backward(pass, alternation.splits ? Op::kBackwardInput : Op::kBackward);
    if (alternation.splits && pass >= alternation.weights_lag) {
      backward(weights++, Op::kBackwardWeight);
    }
  }
  while (alternation.splits && weights < passes) backward(weights++, Op::kBackwardWeight);
  return row;
}

}  // namespace leat::pipeline::orders
