// Which part of an epoch each rank's batch holds: arithmetic on positions, so that ranks agree
// without talking.
//
// An epoch of n samples has the positions 0 .. n-1; which sample is at a position, the Sampler
// tells. Global batch k holds the positions k B .. k B + B - 1, and each of P ranks a contiguous
// slice of it, its shard. The slices of m positions are balanced: the first m % P of them have one
// more than the others. Hence min(m, P) ranks have any: a global batch of 10 over 4 ranks is 3, 3,
// 2, 2; of 7 over 8 it is 7 shards and an empty one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "leat/feeder/order.h"

namespace leat::feeder {

/// Which device of the prefetcher, and which rank of the world that is.
struct LocalRank {
  std::size_t index = 0;
  std::size_t of_world = 0;
};

/// The largest world.
constexpr std::size_t kMostRanks = std::size_t{1} << 20;

/// Successive positions of an epoch.
struct PositionRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

/// A rank's slice of `total` things among `ranks`.
[[nodiscard]] PositionRange balanced_slice(std::uint64_t total, std::size_t rank,
                                           std::size_t ranks) noexcept;

/// Appends to `out` the part [first, first + count) of the positions that `ranges` list one after
/// the other.
void append_slice(std::span<const PositionRange> ranges, std::uint64_t first, std::uint64_t count,
                  std::vector<PositionRange>& out);

/// The batches of an epoch of `samples` samples. A value; everything is arithmetic.
class BatchPlan {
 public:
  /// `batch_size` and `ranks` are at least 1.
  BatchPlan(std::uint64_t samples, std::size_t batch_size, std::size_t ranks,
            LastBatch last) noexcept;

  [[nodiscard]] std::uint64_t samples() const noexcept { return samples_; }
  [[nodiscard]] std::size_t batch_size() const noexcept { return batch_size_; }
  [[nodiscard]] std::size_t ranks() const noexcept { return ranks_; }
  [[nodiscard]] LastBatch last_batch() const noexcept { return last_; }
  /// Global batches of an epoch.
  [[nodiscard]] std::uint64_t batches() const noexcept;

  /// The positions of global batch `batch` < batches(). Where the last one wraps, positions of
  /// samples() and more stand for position modulo samples().
  [[nodiscard]] PositionRange positions(std::uint64_t batch) const noexcept;
  /// Behind those of the last batch; at most 2^64 - 1.
  [[nodiscard]] std::uint64_t end_of_positions() const noexcept;
  /// Those of one rank's shard of it.
  [[nodiscard]] PositionRange shard(std::uint64_t batch, std::size_t rank) const noexcept;
  /// Rows that a rank's batch has room for in a full global batch: its shard of batch_size().
  [[nodiscard]] std::size_t rows(std::size_t rank) const noexcept;
  /// Ranks that have samples in a step of so many.
  [[nodiscard]] std::size_t shards(std::uint64_t samples_of_step) const noexcept;

 private:
  std::uint64_t samples_;
  std::size_t batch_size_;
  std::size_t ranks_;
  LastBatch last_;
};

}  // namespace leat::feeder
