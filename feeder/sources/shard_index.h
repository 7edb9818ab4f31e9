// Which of several files a sample is in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace leat::feeder {

/// The samples of shards, numbered one shard after the other.
class ShardIndex {
 public:
  /// Adds a shard of `samples` samples, which may be 0.
  void add(std::uint64_t samples) { ends_.push_back(size() + samples); }
  [[nodiscard]] std::uint64_t size() const noexcept { return ends_.empty() ? 0 : ends_.back(); }

  /// The place of a sample.
  struct Place {
    std::size_t shard;
    std::uint64_t index;  ///< in the shard
  };
  /// Returns the place of sample `index` < size(), in time logarithmic in the number of shards.
  [[nodiscard]] Place find(std::uint64_t index) const noexcept {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
    return {static_cast<std::size_t>(end - ends_.begin()),
            end == ends_.begin() ? index : index - *(end - 1)};
  }

 private:
  std::vector<std::uint64_t> ends_;  // by shard: one behind its last sample
};

}  // namespace leat::feeder
