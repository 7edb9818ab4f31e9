// What gpu/registry.cpp knows of CUDA. Implemented by the other files of this folder where the CUDA
// Toolkit is present, and by absent.cpp alone where it is not.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "leat/gpu/backend/backend.h"

namespace leat::gpu::cuda {

/// What CUDA offers on this machine. Never throws for what is missing, creates no context.
struct Inventory {
  std::vector<DeviceInfo> devices;
  std::string status;  // such as "1 device, driver 13.0, runtime 13.0", or why there is none
  int failure = 0;     // a cudaError_t: there may be devices, which CUDA has failed to count
};
[[nodiscard]] Inventory inventory();

/// Opens the device with that number. Throws leat::Error where there is none, with inventory()'s
/// status in the text; GpuError where there may be one, and CUDA fails.
[[nodiscard]] std::shared_ptr<Backend> open(int number);

}  // namespace leat::gpu::cuda
