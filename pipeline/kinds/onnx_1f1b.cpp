// A compute slot t is column 2 t of the full table.
#include "leat/pipeline/onnx_1f1b.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/pipeline/kinds/onnx_table.h"
#include "leat/pipeline/text.h"

namespace leat::pipeline {
namespace {

void check_arguments(std::int32_t microbatches, std::int32_t stages,
                     std::span<const int> stage_to_rank) {
  const auto refuse = [](const std::string& what) {
    throw std::invalid_argument("leat: onnx_1f1b: " + what);
  };
  if (microbatches < 1) refuse(std::to_string(microbatches) + " microbatches; at least 1");
  if (stages < 1) refuse(std::to_string(stages) + " stages; at least 1");
  if (std::int64_t{4} * stages * (std::int64_t{stages} + microbatches) > orders::kMostCells) {
    refuse(std::to_string(stages) + " stages and " + std::to_string(microbatches) +
           " microbatches; the full table would have more than " +
           std::to_string(orders::kMostCells) + " cells");
  }
  if (stage_to_rank.empty()) return;
  if (std::ssize(stage_to_rank) != stages) {
    refuse("stage_to_rank has " + std::to_string(stage_to_rank.size()) + " ranks for " +
           std::to_string(stages) + " stages");
  }
  std::vector<bool> seen(stage_to_rank.size());
  for (const int rank : stage_to_rank) {
    if (rank < 0 || rank >= stages) {
      refuse("stage_to_rank has rank " + std::to_string(rank) + "; 0 to " +
             std::to_string(stages - 1));
    }
    if (seen[static_cast<std::size_t>(rank)]) {
      refuse("stage_to_rank has rank " + std::to_string(rank) + " twice");
    }
    seen[static_cast<std::size_t>(rank)] = true;
  }
}

bool goes_forward(const Action& action) {
  return action.op == Op::kForward || action.op == Op::kSendForward ||
         action.op == Op::kRecvForward;
}

// Rows are stages.
std::vector<Row> full_rows(const orders::OnnxTable& table, const std::vector<Row>& compute) {
  const std::size_t stages = compute.size();
  std::vector<Row> rows(stages, Row(2 * table.slots - 1));
  const auto has = [&](std::size_t stage, std::size_t column, auto&& is) {
    return std::ranges::any_of(rows[stage][column], is);
  };
  const auto is_send = [](const Action& action) { return sends(action.op); };
  const auto is_recv = [](const Action& action) { return !sends(action.op); };
  const auto transfer = [&](const Action& task, std::size_t slot) {
    const auto stage = static_cast<std::size_t>(task.stage);
    const auto m = static_cast<std::size_t>(task.microbatch);
    const bool forward = goes_forward(task);
    if (stage == (forward ? 0 : stages - 1)) return;  // nothing comes from another stage
    const std::size_t from = forward ? stage - 1 : stage + 1;
    const std::size_t made = forward ? table.forward[from][m] : table.backward[from][m];
    std::size_t column = 2 * slot - 1;
    while (has(from, column, is_send) || has(stage, column, is_recv)) {
      if (column < 2 * made + 2) throw std::logic_error("leat: onnx_1f1b: a transfer has no row");
      column -= 2;
    }
    rows[from][column].push_back({.stage = static_cast<std::int32_t>(from),
                                  .op = forward ? Op::kSendForward : Op::kSendBackward,
                                  .microbatch = task.microbatch});
    rows[stage][column].push_back({.stage = task.stage,
                                   .op = forward ? Op::kRecvForward : Op::kRecvBackward,
                                   .microbatch = task.microbatch});
  };
  for (std::size_t slot = 0; slot < table.slots; ++slot) {
    for (std::size_t s = 0; s < stages; ++s) {
      rows[s][2 * slot] = compute[s][slot];
      for (const Action& task : compute[s][slot]) transfer(task, slot);
    }
  }
  return rows;
}

// [pass][stage][microbatch], all without events.
template <class Events>
std::array<std::vector<std::vector<Events>>, 2> no_events(std::size_t stages,
                                                          std::size_t microbatches) {
  const std::vector<std::vector<Events>> none(stages, std::vector<Events>(microbatches));
  return {none, none};
}

// Calls f(events, action, n) for each action of the n-th cell, from 0, of its row that is not idle.
template <class Events, class F>
void for_each_task(const std::vector<Row>& rows,
                   std::array<std::vector<std::vector<Events>>, 2>& events, F&& f) {
  for (std::size_t stage = 0; stage < rows.size(); ++stage) {
    int n = 0;
    for (const Cell& cell : rows[stage]) {
      for (const Action& action : cell) {
        const auto pass = goes_forward(action) ? 0U : 1U;
        f(events[pass][stage][static_cast<std::size_t>(action.microbatch)], action, n);
      }
      if (!cell.empty()) ++n;
    }
  }
}

std::vector<Row> by_rank(std::vector<Row> rows, std::span<const int> stage_to_rank) {
  if (stage_to_rank.empty()) return rows;
  std::vector<Row> placed(rows.size());
  for (std::size_t s = 0; s < rows.size(); ++s) {
    placed[static_cast<std::size_t>(stage_to_rank[s])] = std::move(rows[s]);
  }
  return placed;
}

}  // namespace

Onnx1F1B onnx_1f1b(std::int32_t microbatches, std::int32_t stages,
                   std::span<const int> stage_to_rank) {
  check_arguments(microbatches, stages, stage_to_rank);
  const auto all_stages = static_cast<std::size_t>(stages);
  const auto all_microbatches = static_cast<std::size_t>(microbatches);
  const orders::OnnxTable table = orders::onnx_table(microbatches, stages);
  std::vector<Row> compute = orders::onnx_rows(table);
  std::vector<Row> full = full_rows(table, compute);

  Onnx1F1B made;
  made.compute_events = no_events<ComputeEvents>(all_stages, all_microbatches);
  made.full_events = no_events<FullEvents>(all_stages, all_microbatches);
  for_each_task(compute, made.compute_events, [](ComputeEvents& events, const Action&, int n) {
    if (n > 0) events.wait_before_recv = 2 * n - 2;
    if (n > 0) events.wait_after_recv = 2 * n - 1;
    events.record_before_send = 2 * n;
    events.record_after_send = 2 * n + 1;
  });
  for_each_task(full, made.full_events, [](FullEvents& events, const Action& action, int n) {
    const WaitRecord around{.waited = n - 1, .recorded = n};
    (computes(action.op) ? events.compute : sends(action.op) ? events.send : events.recv) = around;
  });
  made.compute = {by_rank(std::move(compute), stage_to_rank), stages, microbatches};
  made.full = {by_rank(std::move(full), stage_to_rank), stages, microbatches};
  return made;
}

}  // namespace leat::pipeline
