// What an optimizer does to a piece.
#pragma once

#include <cstddef>
#include <cstdint>

#include "leat/comm/parameter_server.h"

namespace leat::comm {

/// How many values beside the weight an optimizer keeps of each element: 0, 1 or 2.
[[nodiscard]] std::size_t states_of(const Optimizer& optimizer) noexcept;

/// Reads `count` weights, updates them with the gradient, and writes them to `updated`, which may
/// be `weights`. `state`: states_of() times `count` values, 0 before the first update. `step`:
/// updates of these weights are numbered from 1. Multiplications and additions are separate, so the
/// bits are the same on every machine. Thread-safe: no state of its own.
void update(const Optimizer& optimizer, const float* weights, float* updated, const float* gradient,
            float* state, std::size_t count, std::uint64_t step) noexcept;

}  // namespace leat::comm
