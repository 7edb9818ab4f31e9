// A lease: the only way to a batch.
//
// Example
//   leat::feeder::Lease batch = *feed.next();
//   batch.on(stream);                                   // stream waits for the copy, on the device
//   step<<<...>>>(batch["image"].data<std::uint8_t>(), batch["label"].data<std::uint8_t>());
//   batch.release();                                    // or the destructor
//
// Contract:
//  - binding a stream (on(), or the epoch's stream) makes that stream wait for the copy, on the
//    device, and joins it to the release; up to kMaxStreams streams of the batch's device. A
//    receiver's stream is bound when the lease is first used, by on() or for its tensors;
//  - releasing records an event on each bound stream. The slot is not overwritten before all of
//    them are reached: work that is already enqueued may go on reading it. Enqueueing more after
//    the release is a race, as with any freed memory. A released batch counts as trained on
//    (feeder/state.h); one that was abandoned, or whose lease was destroyed by an exception that
//    unwound its scope, does not;
//  - data() of a lease that no stream is bound to is for the CPU: it waits for the copy on devices
//    whose memory is host memory, and throws std::logic_error on others;
//  - a lease may be moved to and released by another thread, and may outlive its Prefetcher: it
//    co-owns the slots. Bound streams must outlive the lease.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "leat/csp/clock.h"
#include "leat/feeder/tensor.h"

namespace leat::gpu {
class Device;
class StreamRef;
}  // namespace leat::gpu

namespace leat::feeder {

class SlotRing;
struct DeviceSlot;
enum class PassId : std::uint64_t;

/// The right to use one batch. Move-only; empty after a move or a release. One thread at a time.
class Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;  // releases what it had
  ~Lease();

  /// Binds `stream`; once more for a stream that is bound already has no effect. Throws
  /// std::invalid_argument for another device's stream and for one that is being captured into a
  /// graph (which would wait, at each replay, for a copy that is long over), std::length_error
  /// beyond kMaxStreams.
  Lease& on(const gpu::StreamRef& stream);
  /// The tensor of that name. Throws std::out_of_range, naming those there are; std::logic_error if
  /// no stream is bound and the CPU cannot read the memory, or if the lease is empty.
  [[nodiscard]] Tensor operator[](std::string_view name);
  /// All of them: the dataset's, the lengths of those that have a variable one, then what a device
  /// transform wrote; a name that both the dataset and the transform use is there twice. Valid as
  /// long as the lease. Throws std::logic_error as above.
  [[nodiscard]] TensorSet tensors();
  /// Waits until the copy is done, also where a stream is bound: suspends the calling fiber, blocks
  /// a plain thread. For who reads the memory by other means than a stream. Throws GpuError,
  /// Cancelled, std::logic_error if the lease is empty.
  void await();
  /// Where the tensors are.
  [[nodiscard]] const gpu::Device& device() const;
  /// Samples, or pieces of packed ones, in this batch: fewer than usual in an epoch's partial last
  /// batch, and where some were set aside; 0 for a rank that has no shard of this step.
  [[nodiscard]] std::size_t size() const;
  /// Rows of each tensor: size(), and more where the last batch is padded (LastBatch::kPad).
  [[nodiscard]] std::size_t rows() const;
  /// Packed: elements of all samples; else 0.
  [[nodiscard]] std::size_t elements() const;
  [[nodiscard]] std::uint64_t epoch() const;
  /// The global batch's number within its epoch.
  [[nodiscard]] std::uint64_t index() const;
  /// Of the whole step: samples (packed: elements) over all ranks, as planned (what a rank sets
  /// aside, others do not hear of), to weight a mean by, and the number of ranks that have any.
  [[nodiscard]] std::uint64_t step_size() const;
  [[nodiscard]] std::size_t step_shards() const;

  /// Gives the batch back. Idempotent. Does not wait.
  void release() noexcept { end(true); }
  /// As release(), but the batch does not count as trained on: a run that is resumed while its
  /// epoch is under way delivers it again. An epoch that all ranks have left is not come back to.
  void abandon() noexcept { end(false); }
  /// False once released or moved from.
  explicit operator bool() const noexcept { return slot_ != nullptr; }

 private:
  friend class BatchProbe;
  friend class Consumer;
  /// What the host's clock says of a lease.
  struct Times {
    bool are_own = false;                // in the time that the stages and the device live in
    bool cpu_waited = false;             // the CPU has waited for the copy
    Duration waited = Duration::zero();  // of the consumer, for this batch
    TimePoint received;                  // when it last stopped waiting
  };
  Lease(std::shared_ptr<SlotRing> ring, DeviceSlot& slot, PassId pass, Duration waited) noexcept;
  [[nodiscard]] DeviceSlot& slot() const;
  void bind_due();
  Lease& bind(const gpu::StreamRef& stream);
  void end(bool done) noexcept;
  static void record_release(DeviceSlot& slot, SlotRing& ring) noexcept;

  std::shared_ptr<SlotRing> ring_;
  DeviceSlot* slot_;
  PassId pass_;
  int exceptions_;  // that were unwinding the stack when it was made
  Times times_;
};

}  // namespace leat::feeder
