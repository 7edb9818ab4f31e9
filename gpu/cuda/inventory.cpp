// Lists the CUDA devices of this machine, without creating a context.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>

#include "leat/csp/error.h"
#include "leat/gpu/cuda/cuda_backend.h"
#include "leat/gpu/cuda/cuda_error.h"

namespace leat::gpu::cuda {
namespace {

// Clears an error of Leat's call, so that the user's next cudaGetLastError does not return it.
cudaError_t forget(cudaError_t code) noexcept {
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
  return code;
}

// 13010 is CUDA 13.1.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string describe_error(cudaError_t code) {
  return std::string(cudaGetErrorName(code)) + " (" + std::to_string(static_cast<int>(code)) +
         "): " + advice(code);
}

// Whether `code`, from cudaGetDeviceCount, means that there is no device to use: no driver, an old
// driver, a toolkit's stub of it, or no device. Every other error comes from a machine that has, or
// should have, a device.
bool is_absence(cudaError_t code) {
  return code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver ||
         code == cudaErrorStubLibrary;
}

// The oldest driver that a runtime of this version works with: any of its major version's.
std::string oldest_driver(int runtime) { return version_text(runtime / 1000 * 1000); }

// Why cudaGetDeviceCount returned `code`, and what to do about it.
std::string why_none(cudaError_t code, int driver, int runtime) {
  if (driver == 0 && (code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice)) {
    return "no NVIDIA driver was found; install one for CUDA " + oldest_driver(runtime) +
           " or newer, and in a container start it with its GPUs (--gpus all)";
  }
  if (code == cudaErrorInsufficientDriver) {
    return "the NVIDIA driver is too old: it supports CUDA " + version_text(driver) +
           ", this program needs " + oldest_driver(runtime) + "; " + advice(code);
  }
  if (code == cudaErrorNoDevice) {
    if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
      return "no device: CUDA_VISIBLE_DEVICES=\"" + std::string(visible) +
             "\" hides them all, or there is none; unset it";
    }
    return "no device, though there is a driver (CUDA " + version_text(driver) + "); " +
           advice(code);
  }
  return describe_error(code);
}

DeviceInfo describe(int number) {
  DeviceInfo info;
  info.name = "cuda:" + std::to_string(number);
  cudaDeviceProp properties{};
  if (const cudaError_t code = forget(cudaGetDeviceProperties(&properties, number));
      code != cudaSuccess) {
    info.description = "not usable: " + describe_error(code);
    return info;
  }
  info.description = properties.name;
  info.memory_bytes = properties.totalGlobalMem;
  info.copy_engines = properties.asyncEngineCount;
  // cudaDevAttrHostNumaId, which the headers of CUDA 12.0 do not name yet. If the runtime or driver
  // does not know it, it returns an error, and the node is unknown.
  constexpr auto kHostNumaId = static_cast<cudaDeviceAttr>(134);
  int node = -1;
  if (forget(cudaDeviceGetAttribute(&node, kHostNumaId, number)) == cudaSuccess) {
    info.numa_node = node;
  }
  return info;
}

}  // namespace

Inventory inventory() {
  int driver = 0;  // stays 0 where there is none
  int runtime = 0;
  int count = 0;
  static_cast<void>(forget(cudaDriverGetVersion(&driver)));
  static_cast<void>(forget(cudaRuntimeGetVersion(&runtime)));
  cudaError_t code = forget(cudaGetDeviceCount(&count));
  if (code == cudaSuccess && count == 0) code = cudaErrorNoDevice;
  if (code != cudaSuccess) {
    return {.devices = {},
            .status = why_none(code, driver, runtime),
            .failure = is_absence(code) ? 0 : static_cast<int>(code)};
  }

  Inventory all;
  for (int number = 0; number < count; ++number) all.devices.push_back(describe(number));
  all.status = std::to_string(count) + (count == 1 ? " device" : " devices") + ", driver " +
               version_text(driver) + ", runtime " + version_text(runtime);
  return all;
}

DeviceInfo find_device(int number) {
  Inventory all = inventory();
  const std::string name = "cuda:" + std::to_string(number);
  if (all.failure != 0) {
    throw_error(static_cast<cudaError_t>(all.failure), "cudaGetDeviceCount", name);
  }
  if (all.devices.empty()) {
    throw Error("leat: cannot open " + name + ": " + all.status +
                "; or open \"host\" (in Python: \"cpu\")");
  }
  if (number < 0 || static_cast<std::size_t>(number) >= all.devices.size()) {
    throw Error(
        "leat: cannot open " + name + ": this machine has " + all.status + "; open cuda:0" +
        (all.devices.size() > 1 ? " to cuda:" + std::to_string(all.devices.size() - 1) : "") +
        " or \"host\" (in Python: \"cpu\")");
  }
  return std::move(all.devices[static_cast<std::size_t>(number)]);
}

}  // namespace leat::gpu::cuda
