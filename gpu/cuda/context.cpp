#include "leat/gpu/cuda/context.h"

#include <utility>

namespace leat::gpu::cuda {
namespace {

// The error codes of both APIs have the same numbers since CUDA 10.1.
cudaError_t to_runtime(CUresult result) noexcept { return static_cast<cudaError_t>(result); }

// `version` is the CUDA in which the function got the signature that is declared here.
template <class Function>
void find(const char* name, unsigned version, Function*& function, const std::string& device_name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050  // which deprecates the other function
  cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableLegacyStream, &status);
#else
  static_cast<void>(version);
  cudaError_t code = cudaGetDriverEntryPoint(name, &found, cudaEnableLegacyStream, &status);
#endif
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
  if (code == cudaSuccess && (status != cudaDriverEntryPointSuccess || found == nullptr)) {
    code = cudaErrorCallRequiresNewerDriver;
  }
  if (code != cudaSuccess) throw_error(code, name, device_name);
  function = reinterpret_cast<Function*>(found);
}

}  // namespace

Context::Driver Context::find_driver(const std::string& device_name) {
  Driver driver;
  find("cuInit", 2000, driver.initialise, device_name);
  find("cuDeviceGet", 2000, driver.get_device, device_name);
  find("cuDevicePrimaryCtxRetain", 7000, driver.retain_primary, device_name);
  find("cuCtxGetCurrent", 4000, driver.get_current, device_name);
  find("cuCtxSetCurrent", 4000, driver.set_current, device_name);
  find("cuStreamGetCtx", 9020, driver.get_stream_context, device_name);
  return driver;
}

Context::Context(int number, std::string device_name)
    : number_(number), device_name_(std::move(device_name)), driver_(find_driver(device_name_)) {
  CUdevice device = 0;
  CUresult result = driver_.initialise(0);
  if (result == CUDA_SUCCESS) result = driver_.get_device(&device, number);
  if (result == CUDA_SUCCESS) result = driver_.retain_primary(&primary_, device);
  if (result != CUDA_SUCCESS) {
    throw_error(to_runtime(result), "cuDevicePrimaryCtxRetain", device_name_);
  }
}

Context::Scope::Scope(const Context& context, CaptureMode mode) noexcept : context_(context) {
  error_ = to_runtime(context.driver_.get_current(&callers_));
  if (error_ == cudaSuccess && callers_ != context.primary_) {
    error_ = to_runtime(context.driver_.set_current(context.primary_));
    exchanged_ = error_ == cudaSuccess;
  }
  if (error_ != cudaSuccess || mode == CaptureMode::kCallers) return;
  error_ = cudaThreadExchangeStreamCaptureMode(&callers_mode_);
  relaxed_ = error_ == cudaSuccess;
  if (!relaxed_) static_cast<void>(cudaGetLastError());
}

Context::Scope::~Scope() {
  // A failure cannot be handled here, and happens only while the process is ending.
  if (relaxed_) static_cast<void>(cudaThreadExchangeStreamCaptureMode(&callers_mode_));
  if (exchanged_) static_cast<void>(context_.driver_.set_current(callers_));
}

int Context::device_of(cudaStream_t stream) const {
  int number = -1;
  call("cuStreamGetCtx", [&] {
    CUcontext owner = nullptr;
    cudaError_t code = to_runtime(driver_.get_stream_context(stream, &owner));
    // cudaStreamGetDevice needs a newer driver than all other calls. Contexts are not compared,
    // because a context of the user's own, such as a green context, may be on this device too.
    if (code == cudaSuccess) code = to_runtime(driver_.set_current(owner));
    if (code == cudaSuccess) code = cudaGetDevice(&number);
    static_cast<void>(driver_.set_current(primary_));
    return code;
  });
  return number;
}

}  // namespace leat::gpu::cuda
