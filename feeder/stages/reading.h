// What a reader is reading, for those who ask from outside.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "leat/csp/clock.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/slots/slots.h"

namespace leat::feeder {

/// The batch that one reader reads, and its latest sample. The reader's fiber writes, also on a
/// thread that it reads on: some stores, without a lock. Anybody may ask.
class alignas(64) Reading {
 public:
  /// The reader begins to read `batch` at `since`.
  void begin(const BatchId& batch, TimePoint since) noexcept {
    const std::uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    // release: who sees one of these values sees that the version is odd, or a later one.
    epoch_.store(batch.epoch, std::memory_order_release);
    batch_.store(batch.index, std::memory_order_release);
    since_.store(since, std::memory_order_release);
    sample_.store(kNone, std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }
  /// The reader begins to read this sample of the batch.
  void sample(std::uint64_t sample) noexcept { sample_.store(sample, std::memory_order_release); }
  /// The reader has read the batch.
  void end() noexcept { epoch_.store(kNone, std::memory_order_relaxed); }

  /// "reads batch 12 of epoch 1 for 3.20 s, now sample 789", and where `dataset` takes that sample
  /// from; without the time if `at`, the time of the call on the reader's clock, is not known.
  /// Empty if the reader reads nothing.
  [[nodiscard]] std::string text(std::optional<TimePoint> at, const Dataset& dataset,
                                 std::uint64_t seed) const;

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // no epoch, no sample

  std::atomic<std::uint64_t> version_{0};  // odd while the members below are being changed
  std::atomic<std::uint64_t> epoch_{kNone};
  std::atomic<std::uint64_t> batch_{0};
  std::atomic<TimePoint> since_{TimePoint{}};
  std::atomic<std::uint64_t> sample_{kNone};
};

}  // namespace leat::feeder
