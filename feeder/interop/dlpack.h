// DLPack: the tensors of a batch for any framework that reads DLPack, without a copy.
//
// Example: `__dlpack__(stream)` of the image of a batch, in a Python extension module
//   auto batch = std::make_shared<leat::feeder::Lease>(*feed.next());
//   ...
//   auto image = leat::feeder::dlpack::to_dlpack(
//       batch, "image", leat::feeder::dlpack::consumer_stream(batch->device(), stream));
//   PyCapsule_New(leat::feeder::dlpack::hand_over<::DLManagedTensorVersioned>(std::move(image)),
//                 "dltensor_versioned", destroy);
//
// Synchronisation: an export makes the stream of the consumer wait for the copy, on the device. The
// consumer enqueues its work at once, and the host does not wait. On the host device, which has no
// streams, the export itself waits.
//
// Ownership: each exported tensor has a share of the lease. The batch is released with the last
// share, by an event on each stream that it was exported to. Work that the consumer has enqueued
// there before it calls the deleter may still read the batch. Do not call release() on the lease:
// it gives the batch back at once, and exported tensors then show the next content of the slot.
// Drop the shared_ptr instead.
//
// All shares of a batch count as one lease of PrefetcherOptions::max_leases until the last is gone.
// A framework that keeps tensors (for a backward pass, in a garbage collector) needs more
// max_leases.
//
// Thread safety: an export uses the lease, so exports of one batch need one thread at a time.
// Deleters may be called from any thread at any time, also after the prefetcher is gone. Deleters
// do not throw and do not wait (except for the last handle of a host device; see gpu::Device). A
// deleter that runs while an exception unwinds the loop abandons the batch (feeder/state.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "leat/feeder/field.h"
#include "leat/feeder/interop/dlpack_abi.h"
#include "leat/feeder/lease.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace leat::feeder::dlpack {

/// Calls the tensor's own deleter: for std::unique_ptr.
struct Delete {
  /// Calls tensor->deleter.
  template <class Managed>
  void operator()(Managed* tensor) const noexcept {
    tensor->deleter(tensor);
  }
};
/// An exported tensor, until hand_over(). `Managed` is DLManagedTensorVersioned; for consumers
/// older than DLPack 1.0, DLManagedTensor.
template <class Managed>
using Exported = std::unique_ptr<Managed, Delete>;

/// Exports the tensor `name` of the batch: [rows, shape of the field ...], row-major with strides,
/// writable. `data` is aligned to 256 bytes, and null for a tensor without rows; `byte_offset` is
/// 0.
///
/// Binds `stream` to the lease. Without `stream`, the consumer may use the streams that are bound
/// already. On a device with host memory, waits for the copy, and exports a tensor of the CPU.
///
/// Throws as Lease::operator[] and Lease::on do; Cancelled while it waits; std::invalid_argument
/// for a null lease.
template <class Managed = DLManagedTensorVersioned>
[[nodiscard]] Exported<Managed> to_dlpack(const std::shared_ptr<Lease>& lease,
                                          std::string_view name,
                                          const std::optional<gpu::StreamRef>& stream = {});

/// A tensor in memory that is no slot's, such as a copy that outlives its batch. A value.
struct View {
  std::byte* data = nullptr;
  DLDevice device = {kDLCPU, 0};
  DType dtype = DType::kUint8;
  std::span<const std::int64_t> shape;  ///< Row-major. Read during the export only.
  bool is_copy = false;                 ///< Told to consumers of DLManagedTensorVersioned.
};
/// Exports a tensor as to_dlpack() does, with a share of `owner` in place of the lease. Binds
/// nothing and does not wait. The deleter drops the share, on any thread.
template <class Managed = DLManagedTensorVersioned>
[[nodiscard]] Exported<Managed> view_to_dlpack(std::shared_ptr<void> owner, const View& view);

/// An exported tensor and its name.
template <class Managed>
struct Named {
  std::string name;
  Exported<Managed> tensor;
};
/// Exports all tensors of the batch, in their order. If two tensors have one name, it exports the
/// one of the device transform. Otherwise as to_dlpack().
template <class Managed = DLManagedTensorVersioned>
[[nodiscard]] std::vector<Named<Managed>> all_to_dlpack(
    const std::shared_ptr<Lease>& lease, const std::optional<gpu::StreamRef>& stream = {});

/// Returns the argument of Python's `__dlpack__(stream)` as a stream of the batch's device.
///
///   argument on CUDA   returns
///   none, 1            the legacy default stream
///   -1                 nothing: the consumer uses a stream that the lease is bound to already
///   2                  throws GpuError: the per-thread default stream, which Leat cannot know
///   other numbers > 0  the cudaStream_t with that address
///   0, less than -1    throws std::invalid_argument: the protocol forbids them
///
/// On the host device any number throws std::invalid_argument; none returns nothing. Throws
/// GpuError for a number that is not a stream of the device.
[[nodiscard]] std::optional<gpu::StreamRef> consumer_stream(const gpu::Device& device,
                                                            std::optional<std::int64_t> stream);

/// Returns the device in DLPack's terms.
[[nodiscard]] DLDevice device_of(const gpu::Device& device);
/// Returns the element type in DLPack's terms.
[[nodiscard]] DLDataType data_type_of(DType dtype) noexcept;

/// Hands the tensor over as the type of the program's own dlpack.h. The program owns the tensor,
/// and must call its deleter once. Does not compile if the layouts differ.
template <class Theirs, class Managed>
[[nodiscard]] Theirs* hand_over(Exported<Managed> tensor) noexcept {
  using TheirTensor = decltype(Theirs::dl_tensor);
  static_assert(std::is_standard_layout_v<Theirs> && sizeof(Theirs) == sizeof(Managed) &&
                offsetof(Theirs, dl_tensor) == offsetof(Managed, dl_tensor) &&
                offsetof(Theirs, manager_ctx) == offsetof(Managed, manager_ctx) &&
                offsetof(Theirs, deleter) == offsetof(Managed, deleter));
  static_assert(sizeof(TheirTensor) == sizeof(DLTensor) &&
                offsetof(TheirTensor, device) == offsetof(DLTensor, device) &&
                offsetof(TheirTensor, ndim) == offsetof(DLTensor, ndim) &&
                offsetof(TheirTensor, dtype) == offsetof(DLTensor, dtype) &&
                offsetof(TheirTensor, shape) == offsetof(DLTensor, shape) &&
                offsetof(TheirTensor, strides) == offsetof(DLTensor, strides) &&
                offsetof(TheirTensor, byte_offset) == offsetof(DLTensor, byte_offset));
  return reinterpret_cast<Theirs*>(tensor.release());
}

}  // namespace leat::feeder::dlpack
