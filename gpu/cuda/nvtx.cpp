// Ranges by NVTX: headers of the CUDA Toolkit, which load the profiler's library. The one file that
// includes them.

#include "leat/gpu/backend/nvtx.h"

#include <nvtx3/nvToolsExt.h>

namespace leat::gpu::nvtx {

// Once it is initialised, NVTX has no function where no profiler has set one. `static`: while one
// thread initialises NVTX, another one must not look.
bool is_recording() noexcept {
  static const bool records = [] {
    nvtxInitialize(nullptr);
    return NVTX_VERSIONED_IDENTIFIER(nvtxGlobals).nvtxRangeStartA_impl_fnptr != nullptr;
  }();
  return records;
}

std::uint64_t start(const char* name) noexcept { return nvtxRangeStartA(name); }

void end(std::uint64_t range) noexcept { nvtxRangeEnd(range); }

}  // namespace leat::gpu::nvtx
