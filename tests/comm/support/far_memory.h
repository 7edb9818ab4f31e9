// The memory of one rank's gradients, on a device.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/stream.h"
#include "tests/comm/support/training.h"

namespace leat::comm::support {

/// Gradients on a device. All of it is done on one stream.
class FarMemory {
 public:
  FarMemory(const gpu::Device& device, const Plan& plan) : stream(device) {
    for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
      const Tensor& what = plan.tensors[i];
      buffers_.emplace_back(device, what.count * gpu::size_of(what.dtype));
      pinned_.emplace_back(device, buffers_.back().size());
      gradients.push_back({"tensor " + std::to_string(i), buffers_.back().span(), what.dtype});
    }
  }
  void write(std::size_t i, const Bytes& bytes) {
    if (bytes.empty()) return;
    std::memcpy(pinned_[i].data(), bytes.data(), bytes.size());
    copy_async(stream, buffers_[i].span(), pinned_[i].span());
  }
  [[nodiscard]] Bytes read(std::size_t i) {
    copy_async(stream, pinned_[i].span(), buffers_[i].span());
    stream.sync();
    const auto bytes = pinned_[i].span().bytes();
    return {bytes.begin(), bytes.end()};
  }
  gpu::Stream stream;
  std::vector<Gradient> gradients;

 private:
  std::vector<gpu::DeviceBuffer> buffers_;
  std::vector<gpu::PinnedBuffer> pinned_;
};

}  // namespace leat::comm::support
