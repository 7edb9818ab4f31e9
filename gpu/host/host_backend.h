// The host device: a software device, and not a mock.
//
// Each stream is a FIFO of operations run by a fiber; copies really copy; kernels are host
// functions; engines take turns as those of a GPU do. Bandwidth, latency and kernel time may be
// modelled: they are then times of the scheduler's clock, so that under a VirtualClock a program
// takes exactly the time that arithmetic says.
//
// Opened on a fiber, it is part of that fiber's scheduler; on a plain thread it owns a small one.
#pragma once

#include <memory>

#include "leat/gpu/device.h"

namespace leat::gpu::host {

[[nodiscard]] DeviceInfo describe(int index, const HostModel& model);
[[nodiscard]] std::shared_ptr<Backend> open(int index, const HostModel& model);

}  // namespace leat::gpu::host
