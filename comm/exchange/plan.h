// What an exchange sends: its gradients, cut into pieces or joined into buckets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "leat/comm/gradient_exchange.h"

namespace leat::comm {

/// What becomes ready as a whole: a gradient, or a bucket of several, which is one piece.
struct Unit {
  std::vector<std::uint32_t> tensors;
  std::uint64_t bytes = 0;
  std::uint64_t piece_bytes = 0;  ///< whole elements; the last piece is shorter
  std::uint32_t pieces = 0;       ///< 0: no bytes, nothing is sent
  std::uint64_t first_piece = 0;  ///< among those of all units

  /// The bytes of a piece.
  [[nodiscard]] std::uint64_t bytes_of(std::uint32_t piece) const noexcept {
    return piece + 1 < pieces ? piece_bytes : bytes - piece * piece_bytes;
  }
};

/// The plan; the same on all ranks.
struct Plan {
  /// Throws std::invalid_argument for options out of range, and for gradients that cannot be
  /// summed.
  Plan(std::vector<Gradient> gradients, const ExchangeOptions& options);

  std::vector<Gradient> gradients;
  std::vector<Unit> units;             ///< kBucketed: in the order in which they are sent
  std::vector<std::uint32_t> unit_of;  ///< of each gradient
  std::uint64_t largest_piece = 0;     ///< in bytes
  std::uint64_t pieces = 0;            ///< of all units
};

/// Throws std::invalid_argument if the bytes are no whole elements.
void require_whole_elements(const Gradient& one);

/// Assigns tensors to buckets by DDP's rule (Li et al., VLDB'20). `sizes` are in bytes, in the
/// order in which the tensors become ready: the one declared last comes first. `dtypes` has as
/// many. Each dtype has one open bucket. It is closed when its size is at least its limit: the
/// first of `limits` for the first bucket of each dtype, and so on; the last limit repeats.
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
