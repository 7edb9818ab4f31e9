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
//    device, and joins it to the release; up to kMaxStreams streams of the batch's device;
//  - releasing records an event on each bound stream. The slot is not overwritten before all of
//  them
//    are reached: work that is already enqueued may go on reading it. Enqueueing more after the
//    release is a race, as with any freed memory;
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

#include "leat/feeder/dataset.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

class SlotRing;
struct DeviceSlot;
struct TensorLayout;

/// One tensor of a leased batch, in device memory. A view: valid as long as the lease.
class Tensor {
 public:
  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] DType dtype() const noexcept;
  /// [samples, shape of the field ...], row-major.
  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept { return shape_; }
  /// Of the samples that are there, without padding.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The first element. Throws std::invalid_argument if T is not the tensor's type.
  template <class T>
  [[nodiscard]] T* data() const {
    check_type(kDTypeOf<T>);
    return reinterpret_cast<T*>(data_);
  }

 private:
  friend class Lease;
  Tensor(const TensorLayout& layout, std::byte* data, std::size_t bytes,
         std::span<const std::int64_t> shape) noexcept
      : layout_(&layout), data_(data), bytes_(bytes), shape_(shape) {}
  void check_type(DType wanted) const;

  const TensorLayout* layout_;
  std::byte* data_;
  std::size_t bytes_;
  std::span<const std::int64_t> shape_;
};

/// The right to use one batch. Move-only; empty after a move or a release. One thread at a time.
class Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;  // releases what it had
  ~Lease() { release(); }

  /// Binds `stream`; once more for a stream that is bound already has no effect. Throws
  /// std::invalid_argument for another device's stream, std::length_error beyond kMaxStreams.
  Lease& on(const gpu::StreamRef& stream);
  /// The tensor of that name. Throws std::out_of_range, naming those there are; std::logic_error if
  /// no stream is bound and the CPU cannot read the memory, or if the lease is empty.
  [[nodiscard]] Tensor operator[](std::string_view name);
  /// Samples in the batch: fewer than the batch size in an epoch's partial last batch.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::uint64_t epoch() const;
  /// The batch's number within its epoch.
  [[nodiscard]] std::uint64_t index() const;

  /// Gives the batch back. Idempotent. Does not wait.
  void release() noexcept;
  /// False once released or moved from.
  explicit operator bool() const noexcept { return slot_ != nullptr; }

 private:
  friend class Prefetcher;
  Lease(std::shared_ptr<SlotRing> ring, DeviceSlot& slot, Duration waited) noexcept;
  [[nodiscard]] DeviceSlot& slot() const;

  std::shared_ptr<SlotRing> ring_;
  DeviceSlot* slot_;
  Duration waited_;          // of the consumer, for this batch
  TimePoint received_;       // when it last stopped waiting
  bool host_ready_ = false;  // the CPU has waited for the copy
};

}  // namespace leat::feeder
