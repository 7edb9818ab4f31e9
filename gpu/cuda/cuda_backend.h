// The functions of CUDA that gpu/device.cpp calls. With the CUDA Toolkit, other files of this
// folder implement them; without, absent.cpp alone does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "leat/gpu/backend/backend.h"

namespace leat::gpu::cuda {

/// The CUDA devices of this machine.
struct Inventory {
  std::vector<DeviceInfo> devices;
  std::string status;  // such as "1 device, driver 13.0, runtime 13.0", or why there is none
  int failure = 0;     // a cudaError_t if CUDA failed to count the devices, else 0
};
/// Lists the devices. Throws nothing for what is missing, and creates no context.
[[nodiscard]] Inventory inventory();
/// Returns the device with that number. Throws as open() does.
[[nodiscard]] DeviceInfo find_device(int number);

/// Opens the device with that number. Throws leat::Error if there is none, with inventory()'s
/// status in the text; GpuError if CUDA fails.
[[nodiscard]] std::shared_ptr<Backend> open(int number);

}  // namespace leat::gpu::cuda
