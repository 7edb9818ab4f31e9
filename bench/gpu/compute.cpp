#include "leat/bench/gpu/compute.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "leat/bench/gpu/cublas.h"
#include "leat/bench/gpu/cuda/kernels.h"
#include "leat/bench/gpu/device_main.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"

namespace bench {
namespace {

using namespace std::chrono_literals;

constexpr leat::Duration kUnit = 1ms;  // of the kernel; a product takes what it takes

void check(const char* error, const leat::gpu::Device& device) {
  if (error != nullptr) throw leat::gpu::GpuError(0, error, "launch a kernel", device.name(), "");
}

// Computes on the calling thread: no park, no system call.
void compute_for(leat::Duration duration) {
  const leat::TimePoint end = leat::SteadyClock::instance().now() + duration;
  float x = 1;
  do {
    for (int i = 0; i < 256; ++i) x = x * 0.999F + 0.5F;
    benchmark::DoNotOptimize(x);
  } while (leat::SteadyClock::instance().now() < end);
}

void launch(const leat::gpu::StreamRef& stream, leat::Duration duration, bool whole_device) {
  if (stream.device().capabilities().host_kernels) {
    stream.launch_host([duration] { compute_for(duration); });
    return;
  }
  check(cuda::use_device(number_of(stream.device())), stream.device());
  check(cuda::launch_busy(static_cast<std::uint64_t>(duration.count()), whole_device,
                          stream.native_handle()),
        stream.device());
}

}  // namespace

void enqueue_kernel(const leat::gpu::StreamRef& stream, leat::Duration duration) {
  launch(stream, duration, false);
}

/// C = A B of square matrices, all of A a half and all of B ones: all of C is half their width.
class Compute::Gemm {
 public:
  /// Throws std::runtime_error where there is no cuBLAS.
  explicit Gemm(const leat::gpu::Stream& stream)
      : a_(stream.device(), kBytes), b_(stream.device(), kBytes), c_(stream.device(), kBytes) {
    check(cuda::use_device(number_of(stream.device())), stream.device());
    blas_.emplace(stream.native_handle());
    const leat::gpu::PinnedBuffer values(stream.device(), kBytes);
    fill(values, 0.5F);
    leat::gpu::copy_async(stream, a_.span(), values.span());
    stream.sync();
    fill(values, 1);
    leat::gpu::copy_async(stream, b_.span(), values.span());
    enqueue(stream);
    leat::gpu::copy_async(stream, values.span(), c_.span());
    stream.sync();
    const float* const first = reinterpret_cast<const float*>(values.data());
    if (std::any_of(first, first + kWidth * kWidth, [](float x) { return x != kWidth / 2.0F; })) {
      throw std::logic_error("a matrix product is wrong");
    }
  }
  void enqueue(const leat::gpu::Stream& stream) {
    check(cuda::use_device(number_of(stream.device())), stream.device());
    blas_->multiply(kWidth, a_.data(), b_.data(), c_.data());
  }
  [[nodiscard]] std::string name() const {
    return "SGEMM " + std::to_string(kWidth) + "^3 by " + blas_->library();
  }

 private:
  static constexpr int kWidth = 2048;
  static constexpr std::size_t kBytes = sizeof(float) * kWidth * kWidth;

  static void fill(const leat::gpu::PinnedBuffer& buffer, float value) {
    float* const first = reinterpret_cast<float*>(buffer.data());
    std::fill(first, first + kWidth * kWidth, value);
  }

  leat::gpu::DeviceBuffer a_;
  leat::gpu::DeviceBuffer b_;
  leat::gpu::DeviceBuffer c_;
  std::optional<Cublas> blas_;
};

Compute::Compute(const leat::gpu::Device& device) : stream_(device) {
  if (device.capabilities().cuda_kernels) {
    try {
      gemm_ = std::make_unique<Gemm>(stream_);
      name_ = gemm_->name();
    } catch (const std::runtime_error& error) {
      name_ = std::string("a kernel on every multiprocessor (") + error.what() + ")";
    }
  } else {
    name_ = "a kernel on one CPU";
  }
  // Twice: the first time is not like the others. Several at once, because the first is not either.
  constexpr int kUnits = 8;
  for (int turn = 0; turn < 2; ++turn) {
    const leat::gpu::Event start(device, leat::gpu::Timing::kOn);
    const leat::gpu::Event end(device, leat::gpu::Timing::kOn);
    start.record(stream_);
    for (int i = 0; i < kUnits; ++i) enqueue();
    end.record(stream_);
    end.sync();
    unit_ = std::max(leat::gpu::elapsed(start, end) / kUnits, leat::Duration(1));
  }
}

Compute::~Compute() = default;

void Compute::enqueue() {
  if (gemm_ != nullptr) {
    gemm_->enqueue(stream_);
  } else {
    launch(stream_, kUnit, true);
  }
}

}  // namespace bench
