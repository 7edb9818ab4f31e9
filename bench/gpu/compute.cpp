#include "leat/bench/gpu/compute.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "leat/gpu/event.h"

namespace bench {
namespace {

using namespace std::chrono_literals;

constexpr leat::Duration kUnit = 1ms;  // of the kernel; a product takes what it takes

void launch(const leat::gpu::StreamRef& stream, leat::Duration duration, overlap::Extent extent) {
  if (stream.device().capabilities().host_kernels) {
    stream.launch_host([duration] { overlap::compute_for(duration); });
  } else {
    overlap::launch_busy(stream, duration, extent);
  }
}

}  // namespace

void enqueue_kernel(const leat::gpu::StreamRef& stream, leat::Duration duration) {
  launch(stream, duration, overlap::Extent::kOneBlock);
}

Compute::Compute(const leat::gpu::Device& device) : stream_(device) {
  if (device.capabilities().cuda_kernels) {
    try {
      gemm_ = std::make_unique<overlap::Gemm>(stream_);
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
    launch(stream_, kUnit, overlap::Extent::kWholeDevice);
  }
}

}  // namespace bench
