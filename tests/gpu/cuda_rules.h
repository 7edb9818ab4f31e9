// What the tests of Leat beside a user's own CUDA code share: the fixture, and the user's side,
// which is raw CUDA.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "leat/gpu/device.h"
#include "leat/gpu/error.h"
#include "tests/support/backends.h"

namespace leat::gpu::cuda_rules {

constexpr std::size_t kBytes = 10'007;
constexpr std::byte kPoison{0xA5};
inline constexpr unsigned kStreamFlags[] = {cudaStreamDefault, cudaStreamNonBlocking};

/// A call of the user's to CUDA, which succeeds.
inline void must(cudaError_t code) { ASSERT_EQ(code, cudaSuccess) << cudaGetErrorName(code); }

/// A function of the driver's, as it was in CUDA `version`.
template <class Function>
Function* driver_function(const char* name, unsigned version) {
  void* function = nullptr;
#if CUDART_VERSION >= 12050
  must(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableLegacyStream, nullptr));
#else
  static_cast<void>(version);
  must(cudaGetDriverEntryPoint(name, &function, cudaEnableLegacyStream, nullptr));
#endif
  return reinterpret_cast<Function*>(function);
}

class CudaRules : public testing::Test {
 protected:
  void SetUp() override {
    if (!support::open_or_skip("cuda:0")) return;
    devices_ = static_cast<int>(list().devices.size()) - 1;
    get_current_ = driver_function<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent", 4000);
  }

  [[nodiscard]] CUcontext current_context() const {
    CUcontext context = nullptr;
    EXPECT_EQ(get_current_(&context), CUDA_SUCCESS);
    return context;
  }

  int devices_ = 0;

 private:
  decltype(cuCtxGetCurrent)* get_current_ = nullptr;
};

/// A stream that the user has made.
class UserStream {
 public:
  explicit UserStream(unsigned flags) { must(cudaStreamCreateWithFlags(&stream_, flags)); }
  ~UserStream() { must(cudaStreamDestroy(stream_)); }
  UserStream(const UserStream&) = delete;
  UserStream& operator=(const UserStream&) = delete;
  operator cudaStream_t() const noexcept { return stream_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaStream_t stream_ = nullptr;
};

template <class E = GpuError, class F>
void fails(const F& f) {
  EXPECT_THROW(f(), E);
}

}  // namespace leat::gpu::cuda_rules
