// Stands in for kernels.cu in a build without the CUDA Toolkit, where no device calls any of it.
#include "leat/overlap/kernels.h"

namespace {
constexpr const char* kAbsent = "built without the CUDA Toolkit";
}

const char* leat_overlap_use_device(int /*number*/) { return kAbsent; }
const char* leat_overlap_launch_busy(uint64_t /*ns*/, int /*whole_device*/, void* /*stream*/) {
  return kAbsent;
}
