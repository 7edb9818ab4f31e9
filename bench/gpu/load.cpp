#include "bench/gpu/load.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "leat/overlap/shape.h"

namespace bench {
namespace {

using namespace std::chrono_literals;

constexpr leat::Duration kUnit = 1ms;  // of the kernel; a product takes what it takes

std::unique_ptr<overlap::Compute> make(const leat::gpu::Device& device, overlap::Computing how) {
  overlap::Shape shape;
  shape.computing = how;
  shape.t_c = kUnit;
  shape.products = 1;
  return std::make_unique<overlap::Compute>(device, shape);
}

}  // namespace

void enqueue_kernel(const leat::gpu::StreamRef& stream, leat::Duration duration) {
  if (stream.device().capabilities().host_kernels) {
    stream.launch_host([duration] { overlap::compute_for(duration); });
  } else {
    overlap::launch_busy(stream, duration, overlap::Occupancy::kOneBlock);
  }
}

Load::Load(const leat::gpu::Device& device) {
  if (device.capabilities().cuda_kernels) {
    try {
      work_ = make(device, overlap::Computing::kGemm);
      name_ = work_->name();
    } catch (const std::runtime_error& error) {
      work_ = make(device, overlap::Computing::kBusy);
      name_ = work_->name() + " (" + error.what() + ")";
    }
  } else {
    work_ = make(device, overlap::Computing::kCpu);
    name_ = work_->name();
  }
  // Twice: the first time is not like the others. Several at once, because the first is not either.
  constexpr int kUnits = 8;
  for (int turn = 0; turn < 2; ++turn) {
    const leat::gpu::Event start(device, leat::gpu::Timing::kOn);
    const leat::gpu::Event end(device, leat::gpu::Timing::kOn);
    start.record(stream());
    for (int i = 0; i < kUnits; ++i) enqueue();
    end.record(stream());
    end.sync();
    unit_ = std::max(leat::gpu::elapsed(start, end) / kUnits, leat::Duration(1));
  }
}

}  // namespace bench
