// Measurements without a prefetcher, to compare the loop with: the link, Tx and Tc alone, the loop
// without feeding (replay), and the serial loop.
//
// Everything is measured warm: memory is written before it is copied, and the first measurement is
// discarded. Tx and Tc alone, and the link, are measured in trains: several copies or steps follow
// each other, so the figure does not contain the host's work. The fastest of several trains counts.
// That is what the device can do, so no loop is faster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/sample.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "leat/overlap/compute.h"
#include "leat/overlap/shape.h"

namespace overlap {

/// The largest size, in bytes, of the copies that link_peak() measures. On a slow link, a copy
/// takes 20 ms instead.
constexpr std::size_t kPeakBytes = std::size_t{64} << 20;

/// Called with the number of steps, or of repeated measurements, that are done.
using Report = std::function<void(std::uint64_t done)>;
/// How often a measurement is repeated, if it is not one of a loop's steps. The link is measured
/// with copies of two sizes.
constexpr std::uint64_t kTimes = 7;
constexpr std::uint64_t kTimesOfLink = 2 * kTimes;

/// Returns the bytes per second of large copies to a device that does nothing else; 0 if copies
/// take no time. Must be called on a fiber; suspends it. Throws GpuError.
[[nodiscard]] double link_peak(const leat::gpu::Device& device, const Report& report);

/// How many steps a loop runs. `warm_up` steps come first and are not measured.
struct StepCounts {
  std::uint64_t warm_up = 0;
  std::uint64_t measured = 0;
};

/// One batch in memory, and loops over it that need no prefetcher. All functions must be called on
/// one fiber, suspend it, and throw GpuError or what reading throws. Refers to its arguments.
class BareLoop {
 public:
  /// Allocates one batch in pinned memory and one on the device.
  BareLoop(const leat::gpu::Device& device, const Shape& shape, const leat::feeder::Dataset& data,
           Compute& compute);

  /// Returns the seconds that all copies of a batch take on a device that does nothing else.
  [[nodiscard]] double t_x_alone(const Report& report);
  /// Returns the seconds that the compute of a step takes on a device that does nothing else.
  [[nodiscard]] double t_c_alone(const Report& report);
  /// Returns the seconds of a step that computes on one batch, without reading or copying: the
  /// median of sections of about 50 ms. `t_c` is the result of t_c_alone().
  [[nodiscard]] double replay(const StepCounts& steps, double t_c, const Report& report);
  /// Returns the mean seconds of a step that reads, copies and computes in turns, and waits for
  /// each.
  [[nodiscard]] double serial(const StepCounts& steps, const Report& report);

 private:
  void read(std::uint64_t batch);

  const Shape& shape_;
  Compute& compute_;
  const leat::feeder::Dataset& data_;
  const leat::gpu::PinnedBuffer pinned_;
  const leat::gpu::DeviceBuffer batch_;
  const leat::gpu::Stream copies_;
  const leat::gpu::Event copied_;
  std::vector<leat::gpu::CopyToDevice> tensors_;
  leat::feeder::Scratch scratch_;
};

}  // namespace overlap
