#include "leat/gpu/cuda/cuda_error.h"

#include "leat/gpu/error.h"

namespace leat::gpu::cuda {

// Only codes that all CUDA headers since 12.0 have.
std::string advice(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return "";

    case cudaErrorMemoryAllocation:
      return "use smaller batches or fewer slots, or end what else holds memory (nvidia-smi)";
    case cudaErrorInvalidValue: return "CUDA refuses an argument: a pointer, a size or a handle";
    case cudaErrorNotReady: return "await the work first";

    // There is no device to work with.
    case cudaErrorNoDevice: return "look at nvidia-smi and at CUDA_VISIBLE_DEVICES";
    case cudaErrorInvalidDevice: return "leat::gpu::list() says which devices there are";
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
      return "install a driver that supports this version of CUDA, or build with an older toolkit";
    case cudaErrorStubLibrary:
      return "the toolkit's stub of libcuda was loaded: take it out of the library path";
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return "the driver's library and its kernel module do not match: reload the module or reboot";
    case cudaErrorSystemNotReady:
      return "start the driver's services, such as nvidia-fabricmanager";
    case cudaErrorDevicesUnavailable:
      return "another process has it to itself (compute mode): nvidia-smi -q -d COMPUTE";
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsMaxClientsReached:
    case cudaErrorMpsMaxConnectionsReached: return "look at the log of the MPS control daemon";
    case cudaErrorInitializationError:
      return "CUDA does not survive a fork: open the device in the process that uses it";
    case cudaErrorCudartUnloading:
      return "the process is ending: let go of devices before main returns";

    // Something on the device went wrong, usually earlier than the call that reports it, and has
    // taken the context with it: every later call fails in the same way.
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
      return "a kernel or copy enqueued before did this, and only a new process can use the device "
             "again; find it with compute-sanitizer, or with CUDA_LAUNCH_BLOCKING=1";
    case cudaErrorLaunchTimeout:
      return "a kernel enqueued before ran for longer than the display's watchdog allows";
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
      return "the hardware failed: see nvidia-smi -q and the kernel's log (Xid); reset the device "
             "and start a new process";

    case cudaErrorInvalidResourceHandle:
    case cudaErrorDeviceUninitialized:
    case cudaErrorContextIsDestroyed:
      return "a stream or event of another device, one that was destroyed, or a cudaDeviceReset "
             "somewhere in this process";

    case cudaErrorCapturedEvent:
      return "the event was recorded in a capture: record it again outside of one";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
      return "the stream is being captured into a graph: use it again when the capture has ended";

    default: return cudaGetErrorString(code);
  }
}

void throw_error(cudaError_t code, const char* call, const std::string& device, std::size_t bytes) {
  std::string text = call;
  if (bytes > 0) text += "(" + std::to_string(bytes) + " bytes)";
  if (code == cudaErrorMemoryAllocation) {
    throw OutOfMemory(bytes, text + " on " + device,
                      cudaGetErrorName(code) + ("; " + advice(code)));
  }
  throw GpuError(static_cast<int>(code), cudaGetErrorName(code), std::move(text), device,
                 advice(code));
}

}  // namespace leat::gpu::cuda
