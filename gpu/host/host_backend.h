// The host device: a software device, not a mock.
//
// Each stream is a FIFO of operations that a fiber runs. Copies copy, kernels are host functions,
// and operations take turns on the engines, as on a GPU. Bandwidth, latency and kernel time may be
// modelled, as times of the scheduler's clock. So under a VirtualClock a program takes exactly the
// calculated time.
//
// A device that is opened on a fiber runs on that fiber's scheduler. A device that is opened on a
// plain thread owns a small scheduler.
#pragma once

#include <memory>

#include "leat/gpu/backend/backend.h"
#include "leat/gpu/host_model.h"

namespace leat::gpu::host {

/// Returns the description of "host:<index>", which is not opened.
[[nodiscard]] DeviceInfo describe(int index, const HostModel& model);
/// Opens "host:<index>".
[[nodiscard]] std::shared_ptr<Backend> open(int index, const HostModel& model);

}  // namespace leat::gpu::host
