// Measures the loop of a shape on devices: with a prefetcher and, in the same run, the loops to
// compare it with (overlap/bare_loop.h). overlap/README.md defines the figures.
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

class Progress;

/// How long to measure.
struct Effort {
  std::uint64_t steps = 200;     // measured, in each loop
  std::uint64_t warm_up = 10;    // steps before them, not measured
  std::size_t trace = 0;         // batches recorded after the warm-up; 0: none
  double link_peak = 0;          // bytes per second of large copies; 0: measure it
  bool live = false;             // show the loop with a prefetcher
  Progress* progress = nullptr;  // shows the phases; must outlive measure(). Null: nothing is shown
};

/// The figures of one device's loop with a prefetcher. Times in seconds.
struct RankResult {
  double t_step = 0;          // mean of all measured steps, from release to release
  leat::feeder::Stats stats;  // with the same Tstep; its Tc and Tx are at most that
};

/// All figures of one run. Times in seconds; 0: not measured.
struct Measurement {
  Shape shape;
  std::string device;       // "cuda:0"
  std::string description;  // the device's product name
  std::string compute;      // the work of a step
  std::size_t devices = 1;
  bool virtual_time = false;
  std::uint64_t steps = 0;

  // Alone: the best of a measurement before the loops and one after them.
  double link_peak = 0;  // bytes per second: the best of large copies, a batch's, and the loop's
  double t_x_alone = 0;  // a batch's copies, on a device that does nothing else
  double t_c_alone = 0;  // a step's compute on such a device; at most Tstep
  double t_replay = 0;   // a step that computes on one batch, without feeding; at most Tstep
  double t_serial = 0;   // a step that reads, copies and computes in turns, and waits each time
  /// By which factor the loop was faster than the figures alone, before they were limited by the
  /// loop: the most of its step against Tc or the replay, and its copies against the link. 1: not
  /// faster. Above 1, other work on the machine disturbed the measurements alone.
  double excess = 1;
  std::vector<RankResult> ranks;  // the loop with a prefetcher, for each device
  std::string trace;              // feeder/trace.h's JSON; empty: nothing was recorded
  double cpu_seconds = 0;         // CPU time of this process in that loop, with its warm-up
  double fed_bytes = 0;           // bytes copied in that time, over all devices
  // Memory that the prefetcher's constructor allocates. The shape has the caps.
  std::size_t pinned_bytes = 0;  // over all devices
  std::size_t device_bytes = 0;  // of one device: the largest

  /// The slowest rank.
  [[nodiscard]] const RankResult& slowest() const;
  /// Returns whether steps and copies of the slowest rank were sampled. If not, Tx and Tc in the
  /// loop are unknown. The first step of an epoch is never sampled.
  [[nodiscard]] bool is_sampled() const;
  // The figures below are of the slowest rank. NaN: not known.

  /// max(Tc, Tx) / Tstep, with Tc and Tx as measured in the loop; at most 1.
  [[nodiscard]] double overlap_efficiency() const;
  [[nodiscard]] static double overlap_efficiency(const RankResult& rank);
  /// max(Tread D / W, Tx, Tc) / Tstep.
  [[nodiscard]] double feed_efficiency() const;
  /// (Tc + Tx - Tstep) / min(Tc, Tx), between 0 and 1; 1 if there is nothing to hide.
  [[nodiscard]] double hidden_fraction() const;
  /// Tc in the loop, over Tc alone: how much copies slow the kernels down.
  [[nodiscard]] double interference() const;
  /// Bytes per second of a batch's copies in the loop, over link_peak; at most 1. Not known if
  /// copies take no time.
  [[nodiscard]] double link_efficiency() const;
  /// Tc alone / Tstep: accelerator utilisation; at most 1. As MLPerf Storage defines it, but the
  /// copy to the device is part of the step.
  [[nodiscard]] double accelerator_utilization() const;
  /// Tserial / Tstep.
  [[nodiscard]] double speed_up() const;
  /// Tstep / Treplay - 1: how much faster the loop would be if feeding took no time; at least 0.
  /// Not known if a step without feeding takes no time.
  [[nodiscard]] double headspace() const;
  /// CPU time of this process for 1e9 bytes copied, over all devices. Meaningless in virtual time.
  /// On the host device it includes kernels that compute on a CPU, and the copies themselves.
  [[nodiscard]] double core_seconds_per_gb() const;
};

/// Runs all loops of a shape and returns the figures. Must be called on a fiber; suspends it.
/// All devices must be of one kind. Reads `data`, which the shape must fit (overlap/datasets.h),
/// or, for null, data of the shape's sizes. Throws leat::Error, GpuError, and std::invalid_argument
/// for an impossible shape.
[[nodiscard]] Measurement measure(const std::vector<leat::gpu::Device>& devices, const Shape& shape,
                                  const Effort& effort,
                                  const leat::feeder::Dataset* data = nullptr);

}  // namespace overlap
