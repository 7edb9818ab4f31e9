// ONNX Runtime's pipeline schedule (pull request 4524) with its events, exactly.
//
// A slot of the compute table is a unit of time in which a stage does at most one task: forward
// (FW) or backward (BW) of a microbatch. At most S microbatches are under way. The full table has a
// row for communication between each two slots, with the tasks FS, FR, BS, BR: Send and Recv.
//
// Events: a stage waits for what the cell before recorded. An id is of one stage; -1: no event.
//
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "leat/pipeline/schedule.h"

namespace leat::pipeline {

/// Event ids around a task.
struct WaitRecord {
  int waited = -1;
  int recorded = -1;
  friend bool operator==(const WaitRecord&, const WaitRecord&) = default;
};
/// The events of a task in the compute table: the host waits for and records two pairs, since the
/// table has no cells for Recv and Send.
struct ComputeEvents {
  int wait_before_recv = -1;
  int wait_after_recv = -1;
  int record_before_send = -1;
  int record_after_send = -1;
  friend bool operator==(const ComputeEvents&, const ComputeEvents&) = default;
};
/// The events of a task with its Recv and Send in the full table; a missing task has none.
struct FullEvents {
  WaitRecord recv;
  WaitRecord compute;
  WaitRecord send;
  friend bool operator==(const FullEvents&, const FullEvents&) = default;
};

/// Both tables and their events. Rows are stages, or the ranks that stage_to_rank names.
struct Onnx1F1B {
  Schedule compute;  ///< 2 S + 2 (B - 1) columns, idle cells included
  Schedule full;     ///< twice as many less one; the odd ones are for communication
  /// [pass: 0 forward, 1 backward][stage][microbatch]
  std::array<std::vector<std::vector<ComputeEvents>>, 2> compute_events;
  std::array<std::vector<std::vector<FullEvents>>, 2> full_events;
};

/// Makes the tables for B microbatches and S stages. `stage_to_rank` has each of 0 to S - 1 once;
/// empty: stage s is on rank s. Throws std::invalid_argument for other values, and for a full table
/// of more than 2^26 cells.
[[nodiscard]] Onnx1F1B onnx_1f1b(std::int32_t microbatches, std::int32_t stages,
                                 std::span<const int> stage_to_rank = {});

}  // namespace leat::pipeline
