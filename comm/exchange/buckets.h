// DDP's rule that joins small gradients into buckets (Li et al., VLDB'20).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "leat/gpu/dtype.h"

namespace leat::comm {

/// Assigns tensors to buckets. `sizes` are in bytes, in the order in which the tensors become
/// ready: the one declared last comes first. `dtypes` has as many. Each dtype has one open bucket.
/// It is closed when its size is at least its limit: the first of `limits` for the first bucket of
/// each dtype, and so on; the last limit repeats.
///
/// Returns the buckets, each a list of indices into `sizes`. They are in the order of their first
/// tensors, and a bucket's tensors are in the order given. Each index is in one bucket.
///
/// Throws std::invalid_argument if there is no limit, or if there are more or fewer types than
/// sizes. Thread-safe.
[[nodiscard]] std::vector<std::vector<std::size_t>> assign_buckets(
    std::span<const std::size_t> sizes, std::span<const gpu::DType> dtypes,
    std::span<const std::size_t> limits);

}  // namespace leat::comm
