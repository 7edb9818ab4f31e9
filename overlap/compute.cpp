#include "leat/overlap/compute.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "leat/csp/error.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "leat/overlap/cublas.h"
#include "leat/overlap/kernels.h"

namespace overlap {
namespace {

void check(const char* error, const leat::gpu::Device& device) {
  if (error != nullptr) throw leat::gpu::GpuError(0, error, "launch a kernel", device.name(), "");
}

// Returns N of "cuda:N".
int number_of(const leat::gpu::Device& device) {
  const std::string_view name = device.name();
  int number = 0;
  std::from_chars(name.data() + name.find(':') + 1, name.data() + name.size(), number);
  return number;
}

void use(const leat::gpu::Device& device) {
  check(leat_overlap_use_device(number_of(device)), device);
}

}  // namespace

void compute_for(leat::Duration duration) {
  const leat::TimePoint end = leat::SteadyClock::instance().now() + duration;
  volatile float kept = 1;
  float x = kept;
  do {
    for (int i = 0; i < 256; ++i) x = x * 0.999F + 0.5F;
    kept = x;
  } while (leat::SteadyClock::instance().now() < end);
}

void launch_busy(const leat::gpu::StreamRef& stream, leat::Duration duration, Occupancy occupancy) {
  use(stream.device());
  check(leat_overlap_launch_busy(static_cast<std::uint64_t>(duration.count()),
                                 occupancy == Occupancy::kWholeDevice ? 1 : 0,
                                 stream.native_handle()),
        stream.device());
}

Gemm::Gemm(const leat::gpu::Stream& stream)
    : a_(stream.device(), kBytes), b_(stream.device(), kBytes), c_(stream.device(), kBytes) {
  use(stream.device());
  blas_ = std::make_unique<Cublas>(stream.native_handle());
  const leat::gpu::PinnedBuffer values(stream.device(), kBytes);
  float* const first = reinterpret_cast<float*>(values.data());
  const auto fill = [&](float value) { std::fill(first, first + kElements, value); };
  fill(0.5F);
  leat::gpu::copy_async(stream, a_.span(), values.span());
  stream.sync();
  fill(1);
  leat::gpu::copy_async(stream, b_.span(), values.span());
  enqueue(stream);
  leat::gpu::copy_async(stream, values.span(), c_.span());
  stream.sync();
  if (std::any_of(first, first + kElements, [](float x) { return x != kWidth / 2.0F; })) {
    throw std::logic_error("a matrix product is wrong");
  }
}

Gemm::~Gemm() = default;

void Gemm::enqueue(const leat::gpu::Stream& stream) {
  use(stream.device());
  blas_->multiply(kWidth, a_.data(), b_.data(), c_.data());
}

std::string Gemm::name() const {
  return "SGEMM " + std::to_string(kWidth) + "^3 by " + blas_->library();
}

Compute::Compute(const leat::gpu::Device& device, const Shape& shape)
    : how_(shape.computing), t_c_(shape.t_c), stream_(device), products_(shape.products) {
  const Computing how = how_;
  const bool is_host = device.capabilities().host_kernels;
  if (how == Computing::kCpu && !is_host) {
    throw leat::Error("leat-overlap: " + device.name() +
                      " does not compute on a CPU; ask for \"busy\" or \"gemm\"");
  }
  if (how != Computing::kGemm) {
    name_ = how == Computing::kCpu ? "a kernel that computes on a CPU"
            : is_host              ? "a modelled kernel, which takes no CPU"
                                   : "a kernel on every multiprocessor";
    return;
  }
  if (is_host) {
    throw leat::Error("leat-overlap: " + device.name() +
                      " has no matrix products; ask for \"busy\" or \"cpu\"");
  }
  gemm_ = std::make_unique<Gemm>(stream_);
  // Twice, because the first time is a warm-up.
  leat::Duration unit{};
  constexpr int kUnits = 8;
  for (int turn = 0; turn < 2; ++turn) {
    const leat::gpu::Event start(device, leat::gpu::Timing::kOn);
    const leat::gpu::Event end(device, leat::gpu::Timing::kOn);
    start.record(stream_);
    for (int i = 0; i < kUnits; ++i) gemm_->enqueue(stream_);
    end.record(stream_);
    end.sync();
    unit = std::max(leat::gpu::elapsed(start, end) / kUnits, leat::Duration(1));
  }
  if (products_ == 0) products_ = std::max<std::int64_t>(1, (t_c_ + unit / 2) / unit);
  name_ = std::to_string(products_) + " x " + gemm_->name();
}

Compute::~Compute() = default;

void Compute::enqueue() {
  switch (how_) {
    case Computing::kGemm:
      for (std::int64_t i = 0; i < products_; ++i) gemm_->enqueue(stream_);
      return;
    case Computing::kCpu: stream_.launch_host([time = t_c_] { compute_for(time); }); return;
    case Computing::kBusy:
      if (stream_.device().capabilities().host_kernels) {
        stream_.launch_host([] {}, t_c_);
      } else if (t_c_ > leat::Duration::zero()) {
        launch_busy(stream_, t_c_, Occupancy::kWholeDevice);
      }
      return;
  }
}

}  // namespace overlap
