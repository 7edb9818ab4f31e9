// The shape of a feeding loop: batches, times of reading and computing, slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "leat/csp/clock.h"

namespace overlap {

/// A length of time in seconds.
[[nodiscard]] constexpr double seconds(leat::Duration length) {
  return std::chrono::duration<double>(length).count();
}

/// What a reader does while it reads a batch.
enum class Reading : std::uint8_t {
  kWaiting,    // waits, like a read of a disk or a network; other fibers run
  kComputing,  // keeps a CPU busy, like decoding
};

/// What the device does during a step.
enum class Computing : std::uint8_t {
  kBusy,  // CUDA: a kernel on every multiprocessor that watches the clock; host device: a modelled
          // kernel, which takes no CPU
  kCpu,   // host device only: computes on a CPU
  kGemm,  // CUDA only: as many matrix products as take about t_c
};

/// A feeding loop. Times are those of a whole batch.
struct Shape {
  std::string name = "custom";
  std::size_t batch_size = 1;  // samples
  std::size_t sample_bytes = std::size_t{64} << 20;
  std::size_t tensors = 1;  // of a sample; each has an equal part of its bytes
  Reading reading = Reading::kWaiting;
  leat::Duration t_read = leat::Duration::zero();
  /// Each batch's t_read is multiplied by a lognormal variable with mean 1 and this sigma.
  double jitter = 0;
  /// One batch in `straggler_every` takes `straggler_factor` times as long to read; 0: none.
  std::uint64_t straggler_every = 0;
  double straggler_factor = 10;
  Computing computing = Computing::kBusy;
  leat::Duration t_c = std::chrono::milliseconds(5);
  std::int64_t products = 0;  // kGemm: products in a step; 0: as many as take t_c
  std::size_t prefetch_depth = 2;
  std::size_t workers = 1;
  std::size_t pinned_slots = 0;      // of each device; 0: the prefetcher's default
  std::size_t max_pinned_bytes = 0;  // over all devices; 0: no cap
  std::size_t max_device_bytes = 0;  // of each device; 0: no cap
  std::uint64_t seed = 1;            // of the jitter

  [[nodiscard]] std::size_t batch_bytes() const noexcept { return batch_size * sample_bytes; }
  /// Throws std::invalid_argument, with the option and the reason, for an impossible shape.
  void check() const;
};

/// Returns the shapes of MLPerf Storage v1.0 on H100 accelerators: unet3d, resnet50, cosmoflow,
/// with samples in a batch, bytes of a sample and time of a step.
[[nodiscard]] const std::vector<Shape>& mlperf_shapes();

/// Returns how long reading batch `index` takes, by t_read, jitter and stragglers. Depends on the
/// shape and the index alone.
[[nodiscard]] leat::Duration read_time(const Shape& shape, std::uint64_t index);

}  // namespace overlap
