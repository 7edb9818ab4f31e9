// The CUDA backend of a build without the CUDA Toolkit.

#include "leat/csp/error.h"
#include "leat/gpu/cuda/cuda_backend.h"

namespace leat::gpu::cuda {

Inventory inventory() { return {.devices = {}, .status = "built without the CUDA Toolkit"}; }

std::shared_ptr<Backend> open(int number) {
  throw Error("leat: cannot open cuda:" + std::to_string(number) + ": " + inventory().status +
              "; build Leat where nvcc is found (-DLEAT_CUDA=ON says what is missing), or open "
              "\"host\"");
}

}  // namespace leat::gpu::cuda
