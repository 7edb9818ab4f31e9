// cuBLAS, loaded at run time: no program is linked to it, and none fails to start without it.
#pragma once

#include <string>

namespace overlap {

/// A cuBLAS handle for one stream of the calling thread's current device. Not thread-safe; callers
/// must have that device current.
class Cublas {
 public:
  /// `stream` is a cudaStream_t. Throws std::runtime_error if there is no library, or on its
  /// errors.
  explicit Cublas(void* stream);
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  ~Cublas();

  /// Enqueues c = a b of square matrices of floats in device memory. Throws std::runtime_error.
  void multiply(int width, const void* a, const void* b, void* c);
  /// Version and file of the library: "cuBLAS 13.1.0 of /usr/local/cuda/lib64/...". The dynamic
  /// loader's choice depends on what else the process has loaded.
  [[nodiscard]] const std::string& library() const noexcept { return library_; }

 private:
  // cublas_v2.h's, whose types are opaque here: a handle is a pointer, a status and an operation
  // are ints.
  using Create = int (*)(void** handle);
  using Destroy = int (*)(void* handle);
  using SetStream = int (*)(void* handle, void* stream);
  using Sgemm = int (*)(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
                        const float* alpha, const float* a, int lda, const float* b, int ldb,
                        const float* beta, float* c, int ldc);

  std::string library_;
  Destroy destroy_ = nullptr;
  Sgemm sgemm_ = nullptr;
  void* handle_ = nullptr;
};

}  // namespace overlap
