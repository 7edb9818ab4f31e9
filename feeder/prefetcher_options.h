// How a prefetcher works.
#pragma once

#include <cstddef>
#include <cstdint>

#include "leat/feeder/sampler.h"

namespace leat::feeder {

/// What becomes of an epoch's last batch when the samples do not fill it.
enum class LastBatch : std::uint8_t {
  kPartial,  // it is delivered with fewer samples
  kDrop,     // it is left out
};

/// What a prefetcher's constructor refuses with std::invalid_argument, naming it: a 0 where at
/// least 1 is said, and more than 4096 slots, leases or workers.
struct PrefetcherOptions {
  /// Samples in a batch; at least 1.
  std::size_t batch_size = 0;
  /// Batches that are staged ahead, counted with the one in use: 2 is double buffering (one with
  /// the consumer, one being copied), 1 makes copies and compute take turns. Device slots =
  /// max_leases + prefetch_depth - 1.
  std::size_t prefetch_depth = 2;
  /// Leases that the consumer may hold at a time; next() beyond it throws.
  std::size_t max_leases = 1;
  /// Fibers that read and decode samples, each a batch at a time.
  std::size_t workers = 1;
  /// Pinned slots; 0: workers + prefetch_depth, at least 2.
  std::size_t pinned_slots = 0;
  Order order = Order::kShuffled;
  std::uint64_t seed = 0;
  LastBatch last_batch = LastBatch::kPartial;
  /// One step in this many is timed on the device, on average and at irregular distances (0: none;
  /// 1 and 2: two in five).
  std::size_t sample_every = 16;
};

}  // namespace leat::feeder
