#include "leat/feeder/stages/copier.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/slots/slot_checks.h"
#include "leat/feeder/stages/in_order.h"
#include "leat/feeder/stats/figures.h"
#include "leat/feeder/tensor.h"

namespace leat::feeder {
namespace {

constexpr std::size_t kChunkOfSharedLink = std::size_t{8} << 20;

}  // namespace

Copier::Copier(const Shared& shared, SlotRing& ring)
    : shared_(shared),
      ring_(ring),
      chunk_(shared.options.copy_chunk_bytes != 0 ? shared.options.copy_chunk_bytes
             : shared.shares_link                 ? kChunkOfSharedLink
                                                  : ~std::size_t{0}) {
  std::size_t pieces = 0;
  for (const TensorLayout& tensor : ring.layout.staged()) {
    pieces += 1 + tensor.sample_bytes * tensor.rows / chunk_;
  }
  copies_.reserve(pieces);
  if (shared.options.device_transform.function) {
    transforms_.emplace(ring.device);
    copied_.emplace(ring.device);
  }
  if (is_bound(shared.source)) bound_.emplace(shared.plan, shared.log);
}

void Copier::run() {
  InOrder in_order(ring_.filled, ring_.pinned().size(), shared_.options.delivery);
  for (;;) {
    std::uint64_t overtook = 0;
    PinnedSlot& slot = in_order.next(overtook);
    if (overtook > 0) ring_.stats.add_reordered(overtook);
    const bool is_alone = std::exchange(slot.of_source.is_error_of_batch, false);
    if (slot.error != nullptr && !is_alone) std::rethrow_exception(slot.error);
    const bool is_none = slot.of_source.is_skipped || (bound_ && bound_->is_released(slot));
    if (!slot.ends_epoch && !is_alone && !is_none) {
      stage(slot);
      continue;
    }
    const Staged end{.slot = nullptr,
                     .generation = slot.generation,
                     .epoch = slot.batch.epoch,
                     .error = std::exchange(slot.error, nullptr)};
    slot.state.move_on(PinnedState::kFilled, PinnedState::kFree);
    shared_.free(slot);
    if (!is_none) ring_.ready.send(end);
  }
}

// Copies one batch to the next device slot that is free or released. The host only enqueues work
// and blocks for none of it.
void Copier::stage(PinnedSlot& from) {
  const gpu::Stream& stream = ring_.copy_stream;
  const TimePoint wanted = now();
  DeviceSlot& to = **ring_.free_device.recv();
  from.is_last = from.batch.index + 1 == shared_.plan.batches();
  from.wait_for_slot = {.begin = wanted, .end = now()};
  Attempt attempt(ring_, &Observer::copy_begins, from);
  from.mark(Mark::kQueued, stream);
  if (to.state.now() == DeviceState::kReleased) {
    // If the batch was never leased, its transform may still be reading the slot.
    if (transforms_.has_value()) stream.wait(to.ready);
    for (std::size_t i = 0; i < to.bound; ++i) stream.wait(to.released[i]);
    to.bound = 0;
    to.state.move_on(DeviceState::kReleased, DeviceState::kFree);
  }
  if (ring_.checks != nullptr) ring_.checks->before_copy(to, from);
  if (shared_.source != nullptr) take(from, to);
  from.mark(Mark::kCopyBegins, stream);
  to.state.move_on(DeviceState::kFree, DeviceState::kCopying);
  from.state.move_on(PinnedState::kFilled, PinnedState::kCopying);
  from.slot = to.number;
  from.has_failures = !from.failures.empty();
  from.bytes = enqueue_copies(from, to);
  from.mark(Mark::kCopyEnds, stream);
  const StagedRecord& staged = from;
  static_cast<StagedRecord&>(to) = staged;
  attempt.done(&Observer::copied, to);
  from.copied.record(stream);
  if (transforms_.has_value()) {
    transform(from.batch, to);
  } else {
    to.ready.record(stream);
  }
  to.failures.swap(from.failures);
  from.failures.clear();
  to.state.move_on(DeviceState::kCopying, DeviceState::kReady);
  const Staged batch{.slot = &to, .generation = from.generation, .epoch = from.batch.epoch};
  ring_.in_flight.send(&from);
  ring_.ready.send(batch);
  if (shared_.autotuner != nullptr) shared_.autotuner->staged();
}

// Of a batch source: its batches decide how large the device's slots are.
void Copier::take(PinnedSlot& from, DeviceSlot& to) {
  const std::size_t slots = ring_.device_slots().size();
  const std::size_t most = shared_.options.max_device_bytes / slots;
  const std::size_t bytes = from.of_source.layout->bytes();
  if (shared_.options.max_device_bytes != 0 && bytes > most) {
    throw Error("leat: " + name_of(from.batch) + " takes " +
                bytes_text(static_cast<double>(bytes)) +
                " on the device, and max_device_bytes has " +
                bytes_text(static_cast<double>(most)) + " for each of " + std::to_string(slots) +
                " slots: allow for more, or take a smaller batch_size");
  }
  ring_.take_over(to, from);
}

// Enqueues the copies of one batch, in pieces of at most chunk_; returns their bytes.
std::size_t Copier::enqueue_copies(const PinnedSlot& from, DeviceSlot& to) {
  std::size_t bytes = 0;
  copies_.clear();
  for (const TensorLayout& tensor : to.layout->staged()) {
    const std::size_t length = bytes_of(tensor, from);
    for (std::size_t at = 0; at < length; at += std::min(chunk_, length - at)) {
      const std::size_t piece = std::min(chunk_, length - at);
      copies_.push_back({.to = to.memory.subspan(tensor.offset + at, piece),
                         .from = from.memory.subspan(tensor.offset + at, piece)});
    }
    bytes += length;
  }
  if (!copies_.empty()) gpu::copy_async(ring_.copy_stream, copies_);
  to.longest = from.longest;
  if (shared_.source != nullptr) return bytes;  // the shapes are the layout's
  for (std::size_t i = 0; i < ring_.layout.tensors().size(); ++i) {
    const TensorLayout& tensor = ring_.layout.tensors()[i];
    to.shapes[i][0] = static_cast<std::int64_t>(rows_of(tensor, from.batch));
    if (!tensor.length_of.has_value()) continue;
    to.shapes[i][1] = static_cast<std::int64_t>(from.longest[*tensor.length_of]);
  }
  return bytes;
}

// Enqueues the device transform behind the copies, and the slot's ready event behind that.
void Copier::transform(const BatchId& batch, DeviceSlot& to) {
  copied_->record(ring_.copy_stream);
  transforms_->wait(*copied_);
  const std::size_t staged = ring_.layout.staged().size();
  if (batch.rows > 0) {
    shared_.options.device_transform.function(
        TensorSet(ring_.layout, 0, staged, to.memory.data(), to.shapes),
        TensorSet(ring_.layout, staged, ring_.layout.written().size(), to.memory.data(), to.shapes),
        *transforms_);
  }
  to.ready.record(*transforms_);
}

}  // namespace leat::feeder
