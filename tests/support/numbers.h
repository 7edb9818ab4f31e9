// A dataset whose samples follow from their numbers, so that whatever is delivered, to wherever and
// whenever, can be checked.
//
// Example
//   const Numbers data({.size = 100, .read_time = 5us});
//   feeder::Prefetcher feed(data, device, options);
//   for (feeder::Lease& batch : feed.epoch(0, stream)) {
//     launch_check(stream, batch, expected_samples(data, options, batch), 10us);
//   }
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/lease.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/gpu/stream.h"

namespace leat::support {

struct NumbersOptions {
  std::uint64_t size = 0;
  std::size_t pattern_bytes = 24;
  /// That reading one sample takes, on the reader's clock.
  Duration read_time = Duration::zero();
  /// Called by each read, with the sample's number, once its time has passed; may throw and park.
  std::function<void(std::uint64_t)> on_read = {};
};

/// The byte of sample `number`'s pattern at `position`.
[[nodiscard]] std::uint8_t pattern_byte(std::uint64_t number, std::size_t position) noexcept;

/// Sample i has two tensors: "number", an int64 that is i, and "pattern", bytes that follow from i.
class Numbers final : public feeder::Dataset {
 public:
  explicit Numbers(NumbersOptions options);

  [[nodiscard]] std::string_view name() const noexcept override { return "numbers"; }
  [[nodiscard]] std::span<const feeder::Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return options_.size; }
  void read(std::uint64_t index, feeder::Sample& out) const override;

  /// Of one sample.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Reads that have begun.
  [[nodiscard]] std::uint64_t reads() const noexcept { return reads_.load(); }

 private:
  const NumbersOptions options_;
  const std::vector<feeder::Field> fields_;
  mutable std::atomic<std::uint64_t> reads_{0};
};

/// A batch of them, in memory that the CPU can read. Valid as long as the lease, and for work on
/// its streams that was enqueued before its release.
class NumbersView {
 public:
  explicit NumbersView(feeder::Lease& batch);
  /// The samples that the memory holds at this moment. Fails the test where a pattern is not that
  /// of its number.
  [[nodiscard]] std::vector<std::uint64_t> samples() const;

 private:
  const std::int64_t* numbers_;
  const std::uint8_t* patterns_;
  std::size_t count_;
  std::size_t pattern_bytes_;
};

/// The samples that a batch has to hold.
[[nodiscard]] std::vector<std::uint64_t> expected_samples(const feeder::Dataset& data,
                                                          const feeder::PrefetcherOptions& options,
                                                          std::uint64_t epoch, std::uint64_t batch);
[[nodiscard]] std::vector<std::uint64_t> expected_samples(const feeder::Dataset& data,
                                                          const feeder::PrefetcherOptions& options,
                                                          const feeder::Lease& batch);

/// Binds the stream, and enqueues a kernel that uses the batch for `length` of the device's clock
/// and fails the test unless it holds `want` when the kernel starts and still when it ends.
void launch_check(const gpu::StreamRef& stream, feeder::Lease& batch,
                  std::vector<std::uint64_t> want, Duration length = Duration::zero());

}  // namespace leat::support
