#include "leat/pipeline/check.h"

namespace leat::pipeline {

Schedule lower(const Schedule& order) {
  if (is_lowered(order)) return order;
  const std::vector<int> ranks = ranks_of_stages(order);
  const auto is_elsewhere = [&](std::size_t row, std::int32_t stage) {
    return stage >= 0 && stage < order.stages &&
           ranks[static_cast<std::size_t>(stage)] != static_cast<int>(row);
  };
  Schedule lowered{.rows = {}, .stages = order.stages, .microbatches = order.microbatches};
  for (std::size_t row = 0; row < order.rows.size(); ++row) {
    Row& cells = lowered.rows.emplace_back();
    cells.reserve(3 * order.rows[row].size());
    const auto transfer = [&](const Action& of, Op op) {
      cells.push_back({{.stage = of.stage, .op = op, .microbatch = of.microbatch}});
    };
    for (const Cell& cell : order.rows[row]) {
      for (const Action& action : cell) {
        if (action.op == Op::kForward && is_elsewhere(row, action.stage - 1)) {
          transfer(action, Op::kRecvForward);
        }
        if ((action.op == Op::kBackward || action.op == Op::kBackwardInput) &&
            is_elsewhere(row, action.stage + 1)) {
          transfer(action, Op::kRecvBackward);
        }
      }
      cells.push_back(cell);
      for (const Action& action : cell) {
        if (action.op == Op::kForward && is_elsewhere(row, action.stage + 1)) {
          transfer(action, Op::kSendForward);
        }
        if ((action.op == Op::kBackward || action.op == Op::kBackwardInput) &&
            is_elsewhere(row, action.stage - 1)) {
          transfer(action, Op::kSendBackward);
        }
      }
    }
  }
  return lowered;
}

}  // namespace leat::pipeline
