// Stands in for this folder in a build without the CUDA Toolkit, where no device calls any of it.
#include "bench/gpu/cuda/counted_calls.h"
#include "bench/gpu/cuda/kernels.h"
#include "bench/gpu/cuda/raw_events.h"

namespace bench::cuda {
namespace {

constexpr const char* kAbsent = "built without the CUDA Toolkit";

}  // namespace

const char* use_device(int /*number*/) { return kAbsent; }
const char* launch_hold(HoldWords* /*words*/, std::uint32_t /*number*/,
                        std::uint64_t /*timeout_ns*/, void* /*stream*/) {
  return kAbsent;
}
std::unique_ptr<RawEvents> make_raw_events(int /*device*/) { return nullptr; }
Calls counted_calls() noexcept { return {}; }

}  // namespace bench::cuda
