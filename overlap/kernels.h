// Kernels whose duration is the point, in C: so that what is not C++ can launch the same ones. Each
// returns null, or what CUDA complains of. cuda/kernels.cu launches them; cuda/absent.cpp stands in
// for it in a build without the CUDA Toolkit.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes device `number` the calling thread's current one, as launches need. */
const char* leat_overlap_use_device(int number);

/* Enqueues a kernel that computes for `ns` of the device's time: in one block, or (`whole_device`
 * is not 0) in as many as fill every multiprocessor. `stream` is a cudaStream_t of the current
 * device. */
const char* leat_overlap_launch_busy(uint64_t ns, int whole_device, void* stream);

#ifdef __cplusplus
}
#endif
