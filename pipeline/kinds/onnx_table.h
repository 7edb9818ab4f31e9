// ONNX Runtime's compute table (onnx_1f1b.h), filled greedily.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/pipeline/schedule.h"

namespace leat::pipeline::orders {

/// Cells of a schedule that is made, at most: 1.6 GB when all are idle, twice as much when none is.
inline constexpr std::int64_t kMostCells = std::int64_t{1} << 26;

/// When each task is, in slots. Indices are [stage][microbatch].
struct OnnxTable {
  std::size_t slots = 0;  ///< 2 S + 2 (B - 1)
  std::vector<std::vector<std::size_t>> forward;
  std::vector<std::vector<std::size_t>> backward;
};

/// The table for B microbatches and S stages, both at least 1.
[[nodiscard]] OnnxTable onnx_table(std::int32_t microbatches, std::int32_t stages);
/// The table as rows, one for each stage, idle cells included.
[[nodiscard]] std::vector<Row> onnx_rows(const OnnxTable& table);

}  // namespace leat::pipeline::orders
