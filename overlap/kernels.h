// What a step computes, with a C interface, so that other languages can launch the same kernels.
// Functions return null, or CUDA's error message, unless they say otherwise. cuda/kernels.cu
// launches kernels; cuda/absent.cpp stands in for it in a build without the CUDA Toolkit; gemm.cpp
// has the matrix products. All of it is one shared library, too, libleat_overlap_kernels.so
// (bench/peers/overlap loads it).
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes device `number` the calling thread's current one, as launches need. */
const char* leat_overlap_use_device(int number);

/* Enqueues a kernel that computes for `ns` of the device's time: in one block or, if
 * `whole_device` is not 0, in as many blocks as fill every multiprocessor. `stream` is a
 * cudaStream_t of the current device. */
const char* leat_overlap_launch_busy(uint64_t ns, int whole_device, void* stream);

/* Returns a cuBLAS handle for a stream of the current device. Not thread-safe. If there is no
 * cuBLAS, returns null and sets *error to the reason. */
void* leat_overlap_gemm_open(void* stream, const char** error);
/* Enqueues c = a b of square matrices of floats in device memory. */
const char* leat_overlap_gemm(void* gemm, int width, const void* a, const void* b, void* c);
/* Returns which cuBLAS a handle uses: "cuBLAS 13.1.0 of /usr/local/cuda/lib64/libcublas.so.13". */
const char* leat_overlap_gemm_library(void* gemm);

#ifdef __cplusplus
}
#endif
