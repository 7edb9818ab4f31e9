// What the benchmarks run on a CUDA device. Each function returns null, or what CUDA complains of:
// kernels.cu launches kernels, absent.cpp stands in for it in a build without the CUDA Toolkit.
#pragma once

#include <cstdint>

namespace bench::cuda {

/// Makes device `number` the calling thread's current one, as launches need.
const char* use_device(int number);

/// What the host and the kernel that holds a stream tell each other, in pinned memory.
struct HoldWords {
  std::uint32_t open;     // the host stores the hold's number here
  std::uint32_t expired;  // the kernel counts here the holds that nobody opened in time
};
/// Enqueues a kernel of one thread that ends once `words->open` is `number`, or after `timeout_ns`
/// of the device's time: a program that fails to open it ends all the same.
const char* launch_hold(HoldWords* words, std::uint32_t number, std::uint64_t timeout_ns,
                        void* stream);

}  // namespace bench::cuda
