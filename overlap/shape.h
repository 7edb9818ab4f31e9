// The shape of a feeding loop: what a batch is, what reading and computing take, how it is staged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "leat/csp/clock.h"

namespace overlap {

/// What a reader does for the time that a batch takes it.
enum class Reading : std::uint8_t {
  kWaiting,    // as for a disk or a network: other fibers go on
  kComputing,  // as in decoding: a CPU is busy
};

/// What the device does for the time that a step takes it.
enum class Computing : std::uint8_t {
  kBusy,  // is occupied: CUDA, a kernel on every multiprocessor that watches the clock; host
          // device, a modelled kernel, which takes no CPU
  kCpu,   // host device only: a CPU computes
  kGemm,  // CUDA only: matrix products, as many as take about that long
};

/// A loop. Times are those of a whole batch; sizes are in bytes.
struct Shape {
  std::string name = "custom";
  std::size_t batch_size = 1;  // samples
  std::size_t sample_bytes = std::size_t{64} << 20;
  std::size_t tensors = 1;  // that share a sample's bytes
  Reading reading = Reading::kWaiting;
  leat::Duration t_read = leat::Duration::zero();
  /// Of the lognormal distribution, with mean 1, of each batch's t_read: 0 is none.
  double jitter = 0;
  /// One batch in so many (0: none) takes `straggler_factor` times as long to read.
  std::uint64_t straggler_every = 0;
  double straggler_factor = 10;
  Computing computing = Computing::kBusy;
  leat::Duration t_c = std::chrono::milliseconds(5);
  std::int64_t products = 0;  // kGemm: so many, whatever time they take; 0: by t_c
  std::size_t prefetch_depth = 2;
  std::size_t workers = 1;
  std::size_t pinned_slots = 0;      // of each device; 0: as the prefetcher chooses
  std::size_t max_pinned_bytes = 0;  // over all devices; 0: no cap
  std::size_t max_device_bytes = 0;  // of each
  std::uint64_t seed = 1;            // of the jitter

  [[nodiscard]] std::size_t batch_bytes() const noexcept { return batch_size * sample_bytes; }
  /// Throws std::invalid_argument, naming what cannot be.
  void check() const;
};

/// Those of MLPerf Storage on H100 accelerators (v1.0: unet3d, resnet50, cosmoflow): samples in a
/// batch, bytes of a sample, time of a step.
[[nodiscard]] const std::vector<Shape>& mlperf_shapes();

/// What reading batch `index` takes, by t_read, jitter and straggler: a function of the shape and
/// the index alone.
[[nodiscard]] leat::Duration read_time(const Shape& shape, std::uint64_t index);

}  // namespace overlap
