// Measures a shape on a device: the loop with a prefetcher, and beside it, in the same run, the
// serial loop, the loop without any feeding, and the link alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/stats.h"
#include "leat/gpu/device.h"
#include "leat/overlap/shape.h"

namespace overlap {

/// How long to measure.
struct Effort {
  std::uint64_t steps = 200;   // of each loop that are measured
  std::uint64_t warm_up = 10;  // steps before them
  std::size_t trace = 0;       // batches that are recorded after the warm-up; 0: none
  double link_peak = 0;        // bytes per second, where it is known; 0: to be measured
  bool live = false;           // the loop with a prefetcher is shown (feeder/live.h)
};

/// What one device's loop showed. Times in seconds.
struct Fed {
  double t_step = 0;          // mean over all steps that were measured, from release to release
  leat::feeder::Stats stats;  // whose Tstep is that, and its stages' shares are of it
};

/// All that one run measured. Times in seconds, 0 where it was not measured.
struct Measured {
  Shape shape;
  std::string device;       // "cuda:0"
  std::string description;  // the product's name
  std::string compute;      // what a step does
  std::size_t devices = 1;
  bool virtual_time = false;
  std::uint64_t steps = 0;

  double link_peak = 0;  // bytes per second, of large copies
  double t_x_alone = 0;  // of a batch's copies, on a device that does nothing else
  double t_c_alone = 0;  // of a step's compute, likewise
  double t_replay = 0;   // of a step of the loop over one batch that stays where it is
  double t_serial = 0;   // of a step that reads, copies and computes in turns, and waits each time
  std::vector<Fed> ranks;  // the loop with a prefetcher, on each device
  std::string trace;       // feeder/trace.h's JSON; empty: nothing was recorded
  double cpu_seconds = 0;  // of this process, in that loop, its warm-up among it
  double fed_bytes = 0;    // that it copied meanwhile, over all devices
  // The prefetcher's, all of which it allocates when it is made. Their caps are the shape's.
  std::size_t pinned_bytes = 0;  // over all devices
  std::size_t device_bytes = 0;  // of each: the most of any

  /// The slowest rank.
  [[nodiscard]] const Fed& slowest() const;
  // NaN below: not known.

  /// Whether steps and copies of the slowest rank were sampled: not in epochs of one batch, whose
  /// first step never is. What comes of Tx and Tc in the loop is then not known.
  [[nodiscard]] bool is_sampled() const;
  /// max(Tc, Tx) / Tstep, with Tc and Tx as they are in the loop: of the slowest rank, or of one.
  [[nodiscard]] double overlap_efficiency() const;
  [[nodiscard]] static double overlap_efficiency(const Fed& rank);
  /// max(Tread D / W, Tx, Tc) / Tstep.
  [[nodiscard]] double feed_efficiency() const;
  /// (Tc + Tx - Tstep) / min(Tc, Tx), between 0 and 1; 1 where there is nothing to hide.
  [[nodiscard]] double hidden_fraction() const;
  /// Tc in the loop, over Tc alone: how much copies slow the kernels down.
  [[nodiscard]] double interference() const;
  /// Bytes per second of a batch's copies in the loop, over the link's peak. Not known where copies
  /// take no time.
  [[nodiscard]] double link_efficiency() const;
  /// Tc alone / Tstep: accelerator utilisation as MLPerf Storage defines it, but the copy to the
  /// device is part of the step.
  [[nodiscard]] double accelerator_utilization() const;
  /// Tserial / Tstep.
  [[nodiscard]] double speed_up() const;
  /// Tstep / Treplay - 1: how much faster the loop would be if feeding took nothing. Not known
  /// where a step without feeding takes no time.
  [[nodiscard]] double headspace() const;
  /// CPU time of this process for 1e9 bytes copied, over all devices; of no use in virtual time. On
  /// the host device, kernels that compute on a CPU and the copies themselves are part of it.
  [[nodiscard]] double core_seconds_per_gb() const;
};

/// Bytes of the copies by which the link's peak is measured, at most; of a slow link, what takes
/// 20 ms.
constexpr std::size_t kPeakBytes = std::size_t{64} << 20;

/// Bytes per second of large copies to the device, which does nothing else meanwhile; 0 where they
/// take no time.
[[nodiscard]] double link_peak(const leat::gpu::Device& device);

/// Must be called on a fiber; suspends it. All devices are of one kind. Reads `data`, to which the
/// shape was fitted (overlap/datasets.h); without it, bytes of the shape's. Throws leat::Error,
/// GpuError, std::invalid_argument for a shape that cannot be.
[[nodiscard]] Measured measure(const std::vector<leat::gpu::Device>& devices, const Shape& shape,
                               const Effort& effort, const leat::feeder::Dataset* data = nullptr);

}  // namespace overlap
