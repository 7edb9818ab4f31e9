// The host device with modelled times and planned faults: for tests, and for asking "what if the
// link were faster?" without a GPU.
//
// Example
//   leat::gpu::Device device = leat::gpu::open_host({.h2d_bandwidth = 10e9, .copy_latency = 5us});
#pragma once

#include <cstddef>
#include <cstdint>

#include "leat/csp/clock.h"
#include "leat/gpu/device.h"
#include "leat/gpu/memory.h"

namespace leat::gpu {

/// Planned faults of a host device. Operations are counted from 1 in the order in which the device
/// begins them; 0 plans no fault. After the first fault the device accepts no more work, as a GPU:
/// every wait and every enqueue throws GpuError.
struct HostFaults {
  std::uint64_t copy = 0;    // this copy, of all streams, fails: nothing is copied
  std::uint64_t kernel = 0;  // this kernel (launch_host) fails: its function is not called
  /// The device is lost at this operation. Copies, kernels, records, and waits for events that are
  /// not done count. A sync of a stream counts as a record.
  std::uint64_t lost_at = 0;
};

/// How long the operations of a host device take, and which of them fail. The default models
/// nothing: operations take the time that the CPU needs.
///
/// If the link is modelled, operations follow each other in device time: a timer that fires late
/// does not delay the operations after it.
struct HostModel {
  /// Bytes per second, for each direction of the link; 0: not modelled.
  double h2d_bandwidth = 0;
  double d2h_bandwidth = 0;
  /// Time that every copy takes in addition to the time for its bytes.
  Duration copy_latency = Duration::zero();
  /// Device memory in bytes; 0: as much as this machine has.
  std::size_t memory_bytes = 0;
  HostFaults faults = {};
};

/// Opens "host:<index>" with this model; see open() for which scheduler the device runs on. Throws
/// std::invalid_argument for a negative index or latency, and for a bandwidth that is negative or
/// NaN. Thread-safe.
[[nodiscard]] Device open_host(const HostModel& model, int index = 0, const MemoryCaps& caps = {});

}  // namespace leat::gpu
