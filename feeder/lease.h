// A lease: the only way to a batch.
//
// Example
//   leat::feeder::Lease batch = *feed.next();
//   batch.on(stream);                                   // stream waits for the copy, on the device
//   step<<<...>>>(batch["image"].data<std::uint8_t>(), batch["label"].data<std::uint8_t>());
//   batch.release();                                    // or the destructor
//
// Contract:
//  - Binding a stream (on(), or the epoch's stream) makes that stream wait for the copy, on the
//    device, and joins the stream to the release. Up to kMaxStreams streams of the batch's device
//    can be bound. A receiver's stream is bound at the lease's first use, by on() or for tensors.
//  - Releasing records an event on each bound stream. The slot is overwritten only after all of
//    these events: work that is already enqueued may still read the batch. Work that is enqueued
//    after the release is a race, as with any freed memory. A released batch counts as trained on
//    (feeder/state.h). A batch does not count if it was abandoned, or if an exception unwound the
//    scope of its lease. A receipt (feeder/receipt.h) counts a batch apart from its slot.
//  - data() without a bound stream is for the CPU: it waits for the copy on devices whose memory is
//    host memory, and throws std::logic_error on others.
//  - A lease may be moved to another thread and released there. It shares the ownership of the
//    slots, so it may outlive its Prefetcher and the device's handles: it keeps their memory, but
//    no thread. Bound streams must outlive the lease.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "leat/csp/clock.h"
#include "leat/feeder/receipt.h"
#include "leat/feeder/tensor.h"

namespace leat::gpu {
class Device;
class StreamRef;
}  // namespace leat::gpu

namespace leat::feeder {

class SlotRing;
struct DeviceSlot;

/// The right to use one batch. Move-only; empty after a move or a release. One thread at a time.
class Lease {
 public:
  Lease(Lease&& other) noexcept;
  /// Releases the batch that the lease had.
  Lease& operator=(Lease&& other) noexcept;
  /// Releases the batch, or abandons it if an exception unwinds the lease's scope.
  ~Lease();

  /// Binds `stream`. Has no effect for a stream that is bound already. Throws std::invalid_argument
  /// for another device's stream, and for a stream that is being captured into a graph (each replay
  /// would wait for a copy that is long over); std::length_error beyond kMaxStreams streams.
  Lease& on(const gpu::StreamRef& stream);
  /// Returns the tensor of that name. Throws std::out_of_range, with the list of names;
  /// std::logic_error if no stream is bound and the CPU cannot read the memory, or for an empty
  /// lease.
  [[nodiscard]] Tensor operator[](std::string_view name);
  /// Returns all tensors: the dataset's, the lengths of tensors of variable length, then the
  /// tensors that a device transform wrote. A name that both the dataset and the transform use is
  /// there twice. Valid as long as the lease. Throws std::logic_error as above.
  [[nodiscard]] TensorSet tensors();
  /// Returns the same tensors as tensors(), for their names, types, shapes and addresses alone.
  /// Binds no stream and does not wait. Their memory may be read and written once a stream is
  /// bound, or after await(). Valid as long as the lease.
  [[nodiscard]] TensorSet layout() const;
  /// Returns the opaque bytes of a batch from a batch source. Valid as long as the lease.
  [[nodiscard]] const std::string& opaque() const;
  /// Waits until the copy is done, whether or not a stream is bound: suspends the calling fiber,
  /// blocks a plain thread. For code that reads the memory without a stream. Throws GpuError,
  /// Cancelled, and std::logic_error if the lease is empty.
  void await();
  /// As await(), but at most until `deadline`, a time of the caller's clock (leat::now()). Returns
  /// whether the copy is done. In the stats, several such waits count as one, from the first on.
  [[nodiscard]] bool await_until(TimePoint deadline);
  /// Returns the tensors' device: Device::for_memory(). Throws std::logic_error if the lease is
  /// empty, as all functions below except release(), abandon() and the conversion to bool.
  [[nodiscard]] const gpu::Device& device() const;
  /// Returns the samples in this batch; packed: samples and pieces of samples. Fewer than usual in
  /// an epoch's partial last batch, and where samples failed and were left out; 0 if the rank has
  /// no shard of this step.
  [[nodiscard]] std::size_t size() const;
  /// Returns the rows of each tensor: size(), or more in a padded last batch (LastBatch::kPad).
  [[nodiscard]] std::size_t rows() const;
  /// Returns the elements of all samples if they are packed; otherwise 0.
  [[nodiscard]] std::size_t elements() const;
  /// Returns the epoch of the batch.
  [[nodiscard]] std::uint64_t epoch() const;
  /// Returns the global batch's number within its epoch.
  [[nodiscard]] std::uint64_t index() const;
  /// Returns the samples (packed: elements) of the whole step over all ranks, as planned: a sample
  /// that a rank left out still counts. The weight of this batch in a mean is size() / step_size().
  [[nodiscard]] std::uint64_t step_size() const;
  /// Returns how many ranks have samples in this step.
  [[nodiscard]] std::size_t step_shards() const;

  /// Returns the batch's receipt. From then on, release() and the lease's end only give the slot
  /// back; Receipt::commit() counts the batch. Throws std::logic_error if the lease is empty or has
  /// given a receipt already.
  [[nodiscard]] Receipt receipt();
  /// Gives the batch back. Has no effect on an empty lease. Does not wait.
  void release() noexcept { end(true); }
  /// As release(), but the batch does not count as trained on: a run that is resumed during this
  /// epoch delivers it again. A run does not return to an epoch that every rank has left.
  void abandon() noexcept { end(false); }
  /// False after a release, and after a move from this lease.
  explicit operator bool() const noexcept { return slot_ != nullptr; }

 private:
  friend class Consumer;
  Lease(std::shared_ptr<SlotRing> ring, DeviceSlot& slot, PassId pass, Duration waited) noexcept;
  [[nodiscard]] DeviceSlot& slot() const;
  void begin_use();
  void bind_due();
  bool await_copy(TimePoint deadline);
  Lease& bind(const gpu::StreamRef& stream);
  void end(bool done) noexcept;
  static void record_release(DeviceSlot& slot, SlotRing& ring) noexcept;

  std::shared_ptr<SlotRing> ring_;
  DeviceSlot* slot_;
  PassId pass_;     // kNone: a receipt was given
  int exceptions_;  // that were unwinding the stack when it was made
};

}  // namespace leat::feeder
