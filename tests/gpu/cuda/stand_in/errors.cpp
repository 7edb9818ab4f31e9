// The last error, and what the codes are called.
#include <algorithm>

#include "tests/gpu/cuda/stand_in/state.h"

namespace leat::stand_in {
namespace {

struct Description {
  cudaError_t code;
  const char* name;
  const char* text;
};

#define LEAT_DESCRIBE(code, text) \
  Description { code, #code, text }
constexpr Description kDescriptions[] = {
    LEAT_DESCRIBE(cudaSuccess, "no error"),
    LEAT_DESCRIBE(cudaErrorInvalidValue, "invalid argument"),
    LEAT_DESCRIBE(cudaErrorMemoryAllocation, "out of memory"),
    LEAT_DESCRIBE(cudaErrorInitializationError, "initialization error"),
    LEAT_DESCRIBE(cudaErrorCudartUnloading, "driver shutting down"),
    LEAT_DESCRIBE(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    LEAT_DESCRIBE(cudaErrorInsufficientDriver,
                  "driver version is insufficient for runtime version"),
    LEAT_DESCRIBE(cudaErrorCallRequiresNewerDriver, "API call is not supported in the driver"),
    LEAT_DESCRIBE(cudaErrorDevicesUnavailable, "device(s) is/are busy or unavailable"),
    LEAT_DESCRIBE(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    LEAT_DESCRIBE(cudaErrorInvalidDevice, "invalid device ordinal"),
    LEAT_DESCRIBE(cudaErrorDeviceUninitialized, "invalid device context"),
    LEAT_DESCRIBE(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    LEAT_DESCRIBE(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    LEAT_DESCRIBE(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    LEAT_DESCRIBE(cudaErrorNotReady, "device not ready"),
    LEAT_DESCRIBE(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    LEAT_DESCRIBE(cudaErrorLaunchFailure, "unspecified launch failure"),
    LEAT_DESCRIBE(cudaErrorHostMemoryAlreadyRegistered,
                  "part or all of the requested memory range is already mapped"),
    LEAT_DESCRIBE(cudaErrorHostMemoryNotRegistered,
                  "pointer does not correspond to a registered memory region"),
    LEAT_DESCRIBE(cudaErrorNotPermitted, "operation not permitted"),
    LEAT_DESCRIBE(cudaErrorNotSupported, "operation not supported"),
    LEAT_DESCRIBE(cudaErrorStreamCaptureUnsupported,
                  "operation not permitted when stream is capturing"),
    LEAT_DESCRIBE(cudaErrorStreamCaptureInvalidated,
                  "operation failed due to a previous error during capture"),
    LEAT_DESCRIBE(cudaErrorStreamCaptureMerge, "operation would result in a merge of captures"),
    LEAT_DESCRIBE(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream"),
    LEAT_DESCRIBE(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    LEAT_DESCRIBE(cudaErrorStreamCaptureIsolation,
                  "dependency created on uncaptured work in another stream"),
    LEAT_DESCRIBE(cudaErrorStreamCaptureImplicit,
                  "operation would make the legacy stream depend on a capturing blocking stream"),
    LEAT_DESCRIBE(cudaErrorCapturedEvent,
                  "operation not permitted on an event last recorded in a capturing stream"),
    LEAT_DESCRIBE(cudaErrorStreamCaptureWrongThread,
                  "attempt to terminate a thread-local capture sequence from another thread"),
    LEAT_DESCRIBE(cudaErrorUnknown, "unknown error"),
};
#undef LEAT_DESCRIBE

const Description& describe(cudaError_t code) {
  static constexpr Description kNone = {cudaErrorUnknown, "unrecognized error code",
                                        "unrecognized error code"};
  const auto* const found = std::ranges::find(kDescriptions, code, &Description::code);
  return found != std::end(kDescriptions) ? *found : kNone;
}

}  // namespace
}  // namespace leat::stand_in

using namespace leat::stand_in;  // NOLINT(google-build-using-namespace): CUDA's functions are
                                 // global

extern "C" {

const char* cudaGetErrorName(cudaError_t code) { return describe(code).name; }

const char* cudaGetErrorString(cudaError_t code) { return describe(code).text; }

cudaError_t cudaGetLastError() {
  Lock lock(state().mutex);
  return std::exchange(this_thread(lock).last_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() {
  Lock lock(state().mutex);
  return this_thread(lock).last_error;
}

}  // extern "C"
