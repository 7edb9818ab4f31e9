// What is measured without a prefetcher, to compare the loop with: the link, Tx and Tc alone, the
// loop without feeding (replay), and the serial loop.
//
// Everything is measured warm: memory is written before it is copied, and the first time does not
// count. Tx and Tc alone, and the link, are measured in trains: several copies or steps follow each
// other, so that the host's part is not in the figure. The fastest of several trains counts: it is
// what the device can do, and what no loop is faster than.
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

/// Size in bytes of the copies that link_peak() measures, at most. On a slow link they are smaller:
/// as many bytes as are copied in 20 ms.
constexpr std::size_t kPeakBytes = std::size_t{64} << 20;

/// Called with how many of the steps, or of the times that something is measured, are done.
using Report = std::function<void(std::uint64_t done)>;
/// How often time is measured where the loops' steps are not what is counted.
constexpr std::uint64_t kTimes = 7;

/// Returns the bytes per second of large copies to a device that does nothing else; 0 where copies
/// take no time. Must be called on a fiber;
/// suspends it. Throws GpuError.
[[nodiscard]] double link_peak(const leat::gpu::Device& device, const Report& report);

/// How many steps a loop runs: `warm_up` of them first, which are not measured.
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

  /// Seconds that all copies of a batch take on a device that does nothing else.
  [[nodiscard]] double t_x_alone(const Report& report);
  /// Seconds that the compute of a step takes on a device that does nothing else.
  [[nodiscard]] double t_c_alone(const Report& report);
  /// Seconds of a step that computes on the batch that is there, without reading or copying. The
  /// steps are measured in sections of about 50 ms; this is the sections' median. `t_c`: as
  /// t_c_alone() has returned it.
  [[nodiscard]] double replay(const StepCounts& steps, double t_c, const Report& report);
  /// Seconds of a step that reads, copies and computes in turns, and waits for each: the mean.
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
