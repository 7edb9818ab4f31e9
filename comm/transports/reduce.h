// Sums that have the same bits everywhere.
//
// Each element of the result is w_0·x_0 + w_1·x_1 + …, from rank 0 up: in fp32 for fp32, fp16 and
// bf16, in the type itself for the others (integers wrap around). No fused multiply-add; fp16 and
// bf16 are rounded once, at the end, to the nearest, ties to even. Weights apply to floating-point
// types alone. A NaN becomes the one quiet NaN that is positive and has no payload, since which of
// two NaNs survives depends on the instruction. A maximum is a NaN if an input is a NaN; of 0 and
// -0, the lower rank's counts. Where one rank alone contributes, with weight 1, its elements are
// copied bit for bit.
//
// The thread rounds to the nearest and flushes no subnormals to zero, as threads do by default.
//
// Thread-safe: no state. Nothing is allocated.
#pragma once

#include <cstdint>
#include <span>

#include "leat/comm/transports/operation.h"

namespace leat::comm {

/// One rank's input.
struct Input {
  const void* data = nullptr;  ///< null: the rank contributes nothing
  float weight = 1;
};

/// Combines elements [first, second) of all inputs, and writes the result to the same elements of
/// each of `outputs`, which may be inputs but overlap nothing otherwise. Memory may have any
/// alignment. If no rank contributes, the result is 0. For kMax the weights are not used. The type
/// must be reducible, unless one rank alone contributes, with weight 1: that is a copy.
void reduce(DType dtype, Reduction reduction, std::span<const Input> inputs,
            std::span<void* const> outputs, std::uint64_t first, std::uint64_t second) noexcept;

/// Whether elements of the type can be summed.
[[nodiscard]] bool is_reducible(DType dtype) noexcept;

/// The weight of a rank with `samples` of all ranks' `total` samples.
[[nodiscard]] inline float weight_of(std::uint64_t samples, std::uint64_t total) noexcept {
  return total == 0 ? 0.0F
                    : static_cast<float>(static_cast<double>(samples) / static_cast<double>(total));
}

}  // namespace leat::comm
