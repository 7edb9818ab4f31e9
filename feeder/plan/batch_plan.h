// Which part of an epoch each rank's batch holds. It is computed from positions alone, so ranks
// agree without communicating.
//
// An epoch of n samples has the positions 0 .. n-1. The Sampler maps a position to a sample. Global
// batch k holds the positions k B .. k B + B - 1. Each of P ranks has a contiguous slice of the
// batch, its shard. The slices of m positions are balanced: the first m % P slices have one
// position more than the others, so min(m, P) ranks have any.
//
//   global batch of 10 over 4 ranks: shards of 3, 3, 2, 2
//   global batch of 7 over 8 ranks:  7 shards of 1, and an empty one
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "leat/feeder/order.h"

namespace leat::feeder {

/// The number of a device within the prefetcher, and the device's rank in the world.
struct LocalRank {
  std::size_t index = 0;
  std::size_t of_world = 0;
};

/// The largest world.
constexpr std::size_t kMostRanks = std::size_t{1} << 20;

/// The batches that the caller may draw in an epoch (Order::kDrawn). Each is a sample of the plan.
constexpr std::uint64_t kMostDraws = std::uint64_t{1} << 62;

/// Successive positions of an epoch.
struct PositionRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

/// Returns the slice of one rank, if `total` positions are divided among `ranks`.
[[nodiscard]] PositionRange balanced_slice(std::uint64_t total, std::size_t rank,
                                           std::size_t ranks) noexcept;

/// Concatenates `ranges` and appends the part [first, first + count) of the result to `out`.
void append_slice(std::span<const PositionRange> ranges, std::uint64_t first, std::uint64_t count,
                  std::vector<PositionRange>& out);

/// The batches of an epoch of `samples` samples. A value.
class BatchPlan {
 public:
  /// `batch_size` and `ranks` are at least 1.
  BatchPlan(std::uint64_t samples, std::size_t batch_size, std::size_t ranks,
            LastBatch last) noexcept;

  [[nodiscard]] std::uint64_t samples() const noexcept { return samples_; }
  [[nodiscard]] std::size_t batch_size() const noexcept { return batch_size_; }
  [[nodiscard]] std::size_t ranks() const noexcept { return ranks_; }
  [[nodiscard]] LastBatch last_batch() const noexcept { return last_; }
  /// Returns the number of global batches in an epoch.
  [[nodiscard]] std::uint64_t batches() const noexcept;

  /// Returns the positions of global batch `batch` < batches(). If the last batch wraps, a position
  /// p >= samples() stands for p modulo samples().
  [[nodiscard]] PositionRange positions(std::uint64_t batch) const noexcept;
  /// Returns the position after the last batch's last one; at most 2^64 - 1.
  [[nodiscard]] std::uint64_t end_of_positions() const noexcept;
  /// Returns the positions of one rank's shard of global batch `batch`.
  [[nodiscard]] PositionRange shard(std::uint64_t batch, std::size_t rank) const noexcept;
  /// Returns the rows of the rank's shard in a full global batch, which has batch_size() rows.
  [[nodiscard]] std::size_t rows(std::size_t rank) const noexcept;
  /// Returns how many ranks have samples in a step of `samples_of_step` samples.
  [[nodiscard]] std::size_t shards(std::uint64_t samples_of_step) const noexcept;

 private:
  std::uint64_t samples_;
  std::size_t batch_size_;
  std::size_t ranks_;
  LastBatch last_;
};

}  // namespace leat::feeder
