// Devices, contexts, and the driver's functions that the runtime gives out.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "tests/gpu/cuda/stand_in/state.h"

namespace leat::stand_in {
namespace {

CUcontext handle_of(Device* device) { return reinterpret_cast<CUcontext>(device); }

// Null, with an error, if it is no device's primary context, or one that was not retained.
CUresult find_context(CUcontext context, Device*& found) {
  found = nullptr;
  if (context == nullptr) return CUDA_SUCCESS;
  for (const auto& device : state().devices) {
    if (handle_of(device.get()) == context && device->retained) found = device.get();
  }
  return found != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

bool exists(int device) { return device >= 0 && device < state().device_count; }

// As api(): a driver's function leaves no last error, and makes no context current.
template <class F>
CUresult driver(const char* name, F&& f) {
  const support::Counting counting(false);
  Lock lock(state().mutex);
  const auto code = static_cast<CUresult>(enter(lock, name, Needs::kNothing));
  if (code != CUDA_SUCCESS) return code;
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  return f(lock);
}

CUresult initialise(unsigned flags) {
  Lock lock(state().mutex);
  auto code = static_cast<CUresult>(enter(lock, "cuInit", Needs::kDriver));
  if (code == CUDA_SUCCESS && flags != 0) code = CUDA_ERROR_INVALID_VALUE;
  return code;
}

CUresult get_device(CUdevice* device, int number) {
  return driver("cuDeviceGet", [&](Lock&) {
    if (!exists(number)) return CUDA_ERROR_INVALID_DEVICE;
    *device = number;
    return CUDA_SUCCESS;
  });
}

CUresult retain_primary(CUcontext* context, CUdevice number) {
  return driver("cuDevicePrimaryCtxRetain", [&](Lock&) {
    if (!exists(number)) return CUDA_ERROR_INVALID_DEVICE;
    Device* const device = state().devices[static_cast<std::size_t>(number)].get();
    device->retained = true;
    *context = handle_of(device);
    return CUDA_SUCCESS;
  });
}

CUresult get_primary_state(CUdevice number, unsigned* flags, int* active) {
  return driver("cuDevicePrimaryCtxGetState", [&](Lock&) {
    if (!exists(number)) return CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *active = state().devices[static_cast<std::size_t>(number)]->retained ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult get_current(CUcontext* context) {
  return driver("cuCtxGetCurrent", [&](Lock& lock) {
    *context = handle_of(this_thread(lock).context);
    return CUDA_SUCCESS;
  });
}

CUresult set_current(CUcontext context) {
  return driver("cuCtxSetCurrent", [&](Lock& lock) {
    Device* device = nullptr;
    const CUresult code = find_context(context, device);
    if (code == CUDA_SUCCESS) this_thread(lock).context = device;
    return code;
  });
}

CUresult get_stream_context(CUstream handle, CUcontext* context) {
  return driver("cuStreamGetCtx", [&](Lock& lock) {
    if (this_thread(lock).context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *context = handle_of(find_stream(lock, handle)->device);
    return CUDA_SUCCESS;
  });
}

template <class Function>
void* pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

cudaError_t find_entry_point(const char* name, const char* symbol, void** function,
                             unsigned version, cudaDriverEntryPointQueryResult* status) {
  return api(name, Needs::kDriver, [&](Lock&) -> cudaError_t {
    struct EntryPoint {
      std::string_view name;
      unsigned since;
      void* function;
    };
    const EntryPoint known[] = {{"cuInit", 2000, pointer(&initialise)},
                                {"cuDeviceGet", 2000, pointer(&get_device)},
                                {"cuDevicePrimaryCtxRetain", 7000, pointer(&retain_primary)},
                                {"cuDevicePrimaryCtxGetState", 7000, pointer(&get_primary_state)},
                                {"cuCtxGetCurrent", 4000, pointer(&get_current)},
                                {"cuCtxSetCurrent", 4000, pointer(&set_current)},
                                {"cuStreamGetCtx", 9020, pointer(&get_stream_context)}};
    if (symbol == nullptr || function == nullptr) return cudaErrorInvalidValue;
    const auto* const found = std::ranges::find(known, std::string_view(symbol), &EntryPoint::name);
    auto result = cudaDriverEntryPointSuccess;
    *function = nullptr;
    if (found == std::end(known)) {
      result = cudaDriverEntryPointSymbolNotFound;
    } else if (version < found->since || version > static_cast<unsigned>(state().driver_version)) {
      result = cudaDriverEntryPointVersionNotSufficent;
    } else {
      *function = found->function;
    }
    if (status != nullptr) *status = result;
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace leat::stand_in

using namespace leat::stand_in;  // NOLINT(google-build-using-namespace): CUDA's functions are
                                 // global

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  return api("cudaDriverGetVersion", Needs::kNothing, [&](Lock&) -> cudaError_t {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = state().driver_version;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return api("cudaRuntimeGetVersion", Needs::kNothing, [&](Lock&) -> cudaError_t {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = kRuntimeVersion;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceCount(int* count) {
  return api("cudaGetDeviceCount", Needs::kDriver, [&](Lock&) -> cudaError_t {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = state().device_count;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api("cudaGetDeviceProperties", Needs::kDriver, [&](Lock&) -> cudaError_t {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (!exists(device)) return cudaErrorInvalidDevice;
    *properties = {};
    static_cast<void>(std::snprintf(properties->name, sizeof properties->name, "CUDA stand-in"));
    properties->totalGlobalMem = state().device_memory;
    properties->asyncEngineCount = 2;
    properties->major = 9;
    properties->multiProcessorCount = 1;
    properties->unifiedAddressing = 1;
    properties->pciBusID = device;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return api("cudaDeviceGetAttribute", Needs::kDriver, [&](Lock&) -> cudaError_t {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (!exists(device)) return cudaErrorInvalidDevice;
    switch (static_cast<int>(attribute)) {
      case cudaDevAttrAsyncEngineCount: *value = 2; break;
      case cudaDevAttrPageableMemoryAccess:
      case cudaDevAttrPageableMemoryAccessUsesHostPageTables: *value = 0; break;
      case cudaDevAttrUnifiedAddressing:
      case cudaDevAttrCanMapHostMemory:
      case cudaDevAttrHostRegisterSupported:
      case cudaDevAttrHostRegisterReadOnlySupported:
      case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
      case 134: *value = 0; break;  // cudaDevAttrHostNumaId, which CUDA 12.0 does not name yet
      default: die("cudaDeviceGetAttribute: " + std::to_string(attribute) + " is not modelled");
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api("cudaGetDevice", Needs::kDriver, [&](Lock& lock) -> cudaError_t {
    if (device == nullptr) return cudaErrorInvalidValue;
    const Device* const current = this_thread(lock).context;
    *device = current != nullptr ? current->number : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api("cudaSetDevice", Needs::kDriver, [&](Lock& lock) -> cudaError_t {
    if (!exists(device)) return cudaErrorInvalidDevice;
    Device* const chosen = state().devices[static_cast<std::size_t>(device)].get();
    chosen->retained = true;
    this_thread(lock).context = chosen;
    return chosen->failed;
  });
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* status) {
  return find_entry_point("cudaGetDriverEntryPointByVersion", symbol, function, version, status);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function,
                                    unsigned long long /*flags*/,
                                    cudaDriverEntryPointQueryResult* status) {
  return find_entry_point("cudaGetDriverEntryPoint", symbol, function, CUDART_VERSION, status);
}
#endif

}  // extern "C"
