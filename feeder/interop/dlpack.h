// DLPack: tensors of a batch for whatever framework takes them, without a copy.
//
// Example: in an extension module, the `__dlpack__(stream)` of a batch's image
//   auto batch = std::make_shared<leat::feeder::Lease>(*feed.next());
//   ...
//   auto image = leat::feeder::dlpack::to_dlpack(
//       batch, "image", leat::feeder::dlpack::consumer_stream(batch->device(), stream));
//   PyCapsule_New(leat::feeder::dlpack::hand_over<::DLManagedTensorVersioned>(std::move(image)),
//                 "dltensor_versioned", destroy);
//
// An exported tensor carries the batch's ready event: exporting makes the consumer's stream wait
// for the copy, on the device, so the consumer enqueues its work at once and the host waits for
// nothing. (A CPU has no streams: there the export waits.) Each exported tensor has a share of the
// lease. The batch is released with the last of them, by an event on each stream that it was
// exported to; what the consumer enqueued there before it called the deleter may go on reading.
//
// Releasing the lease itself gives the batch back at once, whatever tensors there are: they then
// show what comes into the slot next. Drop the shared_ptr instead.
//
// Shares count as one lease of PrefetcherOptions::max_leases until the last of them is gone: a
// framework that keeps tensors (for a backward pass, in a garbage collector) needs as many more.
//
// Thread-safety: an export uses the lease, so one thread at a time; the deleters may be called from
// any thread at any time, also when the prefetcher is gone. They do not throw, and wait for nothing
// (but see gpu::Device, of a host device's last handle, which may be a tensor's). One that
// is called by an exception that unwinds the loop abandons the batch (feeder/state.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

/// Calls the tensor's own deleter.
struct Delete {
  template <class Managed>
  void operator()(Managed* tensor) const noexcept {
    tensor->deleter(tensor);
  }
};
/// An exported tensor, until it is handed over. `Managed` is DLManagedTensorVersioned or, for a
/// consumer from before DLPack 1.0, DLManagedTensor.
template <class Managed>
using Exported = std::unique_ptr<Managed, Delete>;

/// The tensor `name` of the batch, [rows, shape of the field ...], row-major with its strides said;
/// writable. data is aligned to 256 bytes, byte_offset is 0; of a tensor without rows, data is
/// null.
///
/// `stream` is bound to the lease. Without one, the streams that it is bound to already are those
/// that the consumer may use. On a device whose memory is the host's, the copy is waited for, and
/// the tensor is the CPU's.
///
/// Throws as Lease::operator[] and Lease::on; Cancelled where it waits; std::invalid_argument for
/// no lease.
template <class Managed = DLManagedTensorVersioned>
[[nodiscard]] Exported<Managed> to_dlpack(const std::shared_ptr<Lease>& lease,
                                          std::string_view name,
                                          const std::optional<gpu::StreamRef>& stream = {});

/// A tensor among several.
template <class Managed>
struct Named {
  std::string name;
  Exported<Managed> tensor;
};
/// All tensors that the batch has, in its order; of those of one name, the one that a device
/// transform wrote. Otherwise as to_dlpack.
template <class Managed = DLManagedTensorVersioned>
[[nodiscard]] std::vector<Named<Managed>> all_to_dlpack(
    const std::shared_ptr<Lease>& lease, const std::optional<gpu::StreamRef>& stream = {});

/// What Python's `__dlpack__(stream)` is given, as a stream of the batch's device. On CUDA: none
/// and 1 are the legacy default stream; -1 is none at all (the consumer waits by other means, on a
/// stream that the lease is bound to already); other numbers are a cudaStream_t. On the host device
/// there is no stream to be had.
///
/// Throws std::invalid_argument for what the protocol does not allow: 0, less than -1, and on the
/// host device any; GpuError for what is no stream of the device, and for 2, the per-thread default
/// stream, which Leat cannot know.
[[nodiscard]] std::optional<gpu::StreamRef> consumer_stream(const gpu::Device& device,
                                                            std::optional<std::int64_t> stream);

/// Where DLPack says that the device's memory is.
[[nodiscard]] DLDevice device_of(const gpu::Device& device);
/// What it calls the type.
[[nodiscard]] DLDataType data_type_of(DType dtype) noexcept;

/// The tensor as the program's own <dlpack/dlpack.h> has it, and to be deleted by the program: by
/// calling its deleter, once. Does not compile where the layouts differ.
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
