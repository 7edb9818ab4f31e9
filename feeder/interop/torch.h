// LibTorch: the tensors of a batch as torch::Tensor, without a copy.
//
// Example
//   for (leat::feeder::Lease& lease : feed.epoch(epoch)) {
//     const leat::feeder::TorchBatch batch(std::move(lease));     // on the current stream
//     auto loss = torch::cross_entropy_loss(net->forward(batch["image"]), batch["label"]);
//     ...
//   }
//
// Ownership: each tensor has a share of the lease of its batch. The batch is released with the last
// tensor, which may be in a variable, in a view, or in the graph of a loss. The release is an event
// on the stream that used the batch: kernels that are enqueued may still read it, and the host does
// not wait. Bind any other stream that uses the batch with TorchBatch::on; it is what record_stream
// is for Torch's memory.
//
// A batch counts against PrefetcherOptions::max_leases until its release. A loop in which the loss
// lives until the next loss is assigned holds two batches. A batch whose last tensor is destroyed
// by an exception is abandoned (feeder/state.h).
//
// Building: this header needs libtorch; Leat's libraries do not. Use find_package(Torch) and link
// ${TORCH_LIBRARIES}, built for the same ABI of the C++ library as the program.
//
// Thread safety: one thread at a time uses a TorchBatch. Any thread may use and destroy tensors.
#pragma once

#include <torch/torch.h>
#include <torch/version.h>
// Only a libtorch that was built with CUDA has this header; others have CUDAStream.h, too.
#if __has_include(<c10/cuda/impl/cuda_cmake_macros.h>)
#include <c10/cuda/CUDAStream.h>
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/feeder/field.h"
#include "leat/feeder/interop/dlpack.h"
#include "leat/feeder/lease.h"
#include "leat/feeder/tensor.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// Torch's type for `dtype`. Throws std::invalid_argument for uint16, uint32 and uint64 if libtorch
/// is older than 2.3, which lacks them.
[[nodiscard]] inline torch::ScalarType torch_type(DType dtype) {
  switch (dtype) {
    case DType::kInt8: return torch::kInt8;
    case DType::kInt16: return torch::kInt16;
    case DType::kInt32: return torch::kInt32;
    case DType::kInt64: return torch::kInt64;
    case DType::kUint8: return torch::kUInt8;
    case DType::kFloat16: return torch::kFloat16;
    case DType::kBFloat16: return torch::kBFloat16;
    case DType::kFloat32: return torch::kFloat32;
    case DType::kFloat64: return torch::kFloat64;
    case DType::kBool: return torch::kBool;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
    case DType::kUint16: return torch::kUInt16;
    case DType::kUint32: return torch::kUInt32;
    case DType::kUint64: return torch::kUInt64;
#else
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64: break;
#endif
  }
  throw std::invalid_argument(std::string("leat: libtorch ") + TORCH_VERSION + " has no " +
                              to_string(dtype) + ": convert it by a transform, or take 2.3");
}

/// Torch's current stream on `device`, a CUDA device. Throws std::logic_error if libtorch was built
/// without CUDA; GpuError for a stream that Leat cannot use.
[[nodiscard]] inline gpu::StreamRef torch_stream(const gpu::Device& device) {
#if __has_include(<c10/cuda/impl/cuda_cmake_macros.h>)
  const auto index = static_cast<c10::DeviceIndex>(dlpack::device_of(device).device_id);
  void* const stream = c10::cuda::getCurrentCUDAStream(index).stream();
  if (stream == nullptr) return gpu::StreamRef::legacy(device);
  return gpu::StreamRef::from_native(device, stream);
#else
  throw std::logic_error("leat: this libtorch was built without CUDA: it has no streams on " +
                         device.name());
#endif
}

/// A batch whose tensors are torch::Tensor. Movable; copies share the lease.
class TorchBatch {
 public:
  /// Takes the lease. On CUDA, binds Torch's current stream; on a device whose memory is the
  /// host's, waits for the copy. Throws as Lease::on, torch_stream() and Lease::await do;
  /// std::logic_error for an empty lease.
  explicit TorchBatch(Lease&& lease) : lease_(std::make_shared<Lease>(std::move(lease))) {
    if (lease_->device().capabilities().device_memory_is_host_memory) {
      lease_->await();
    } else {
      lease_->on(torch_stream(lease_->device()));
    }
  }
  /// Takes the lease, and binds `stream` instead of Torch's current stream. Throws as above.
  TorchBatch(Lease&& lease, const gpu::StreamRef& stream)
      : lease_(std::make_shared<Lease>(std::move(lease))) {
    on(stream);
    if (lease_->device().capabilities().device_memory_is_host_memory) lease_->await();
  }

  /// Binds another stream that uses the tensors. Throws as Lease::on does.
  const TorchBatch& on(const gpu::StreamRef& stream) const {
    lease_->on(stream);
    return *this;
  }
  /// Returns the tensor `name`: [rows, shape of the field ...], writable. Throws std::out_of_range,
  /// which lists the names there are; as torch_type() does.
  [[nodiscard]] torch::Tensor operator[](std::string_view name) const {
    return share((*lease_)[name]);
  }
  /// All tensors, in the order of Lease::tensors(). Throws as torch_type() does.
  [[nodiscard]] std::vector<torch::Tensor> tensors() const {
    const TensorSet all = lease_->tensors();
    std::vector<torch::Tensor> made;
    made.reserve(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) made.push_back(share(all[i]));
    return made;
  }
  /// Returns the lease, for size(), epoch(), step_size() and so on.
  [[nodiscard]] const Lease& lease() const noexcept { return *lease_; }

 private:
  [[nodiscard]] torch::Tensor share(const Tensor& tensor) const {
    const dlpack::DLDevice at = dlpack::device_of(lease_->device());
    const torch::Device device =
        at.device_type == dlpack::kDLCPU
            ? torch::Device(torch::kCPU)
            : torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(at.device_id));
    const auto options = torch::TensorOptions().dtype(torch_type(tensor.dtype())).device(device);
    return torch::from_blob(
        tensor.raw(), torch::IntArrayRef(tensor.shape().data(), tensor.shape().size()),
        [lease = lease_](void*) mutable { lease.reset(); }, options);
  }

  std::shared_ptr<Lease> lease_;
};

}  // namespace leat::feeder
