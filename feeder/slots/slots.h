// Staging slots: the buffers that circulate through the prefetcher.
//
// There are two rings of them, allocated once. A pinned slot is written by a CPU, so it is free
// again only when its copy is done, which a fiber awaits. A device slot is written by the copy
// stream, so it is free again as soon as its release events are recorded: the copy stream waits for
// them on the device, and no host does.
//
// Always true: a slot's state changes only through move_on(), which checks that the slot was where
// the caller believed it to be; between two moves exactly one stage owns the slot.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/plan/packing.h"
#include "leat/feeder/slots/layout.h"
#include "leat/feeder/stages/failures.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

struct StepTiming;
struct TracedBatch;
enum class StepPart : std::uint8_t;

/// Which batch a slot holds.
struct BatchId {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;         // of the global batch, within the epoch
  std::size_t samples = 0;         // this rank's
  std::size_t rows = 0;            // with the padding
  std::size_t elements = 0;        // of packed samples
  std::size_t element_rows = 0;    // with the padding
  Carry carry;                     // where the packed shard begins
  std::uint64_t step_samples = 0;  // of the global batch, over all ranks; packed: elements
  std::size_t step_shards = 0;     // ranks that have any
};

/// Rows of a tensor in such a batch.
[[nodiscard]] std::size_t rows_of(const TensorLayout& tensor, const BatchId& batch) noexcept;

/// Where a pinned slot is.
enum class PinnedState : std::uint8_t {
  kFree,     // in the channel of free pinned slots
  kFilling,  // with a reader
  kFilled,   // on its way to the copier
  kCopying,  // a copy from it is enqueued
};
/// Where a device slot is.
enum class DeviceState : std::uint8_t {
  kFree,      // in the channel of free device slots, never leased yet or its batch discarded
  kCopying,   // with the copier, which enqueues a copy into it
  kReady,     // on its way to the consumer; its ready event orders the copy before any use
  kLeased,    // with the consumer
  kReleased,  // in the channel of free device slots; its release events are recorded
};
[[nodiscard]] const char* to_string(PinnedState state) noexcept;
[[nodiscard]] const char* to_string(DeviceState state) noexcept;

/// A state that changes in checked steps. Aborts with both states named on a step that is none.
template <class State>
class SlotState {
 public:
  void move_on(State from, State to) noexcept {
    // The slot travels through channels, which order everything; the exchange only makes the check
    // itself safe when it fails.
    const State found = state_.exchange(to, std::memory_order_relaxed);
    if (found != from) fail(found, from, to);
  }
  [[nodiscard]] State now() const noexcept { return state_.load(std::memory_order_relaxed); }

 private:
  [[noreturn]] static void fail(State found, State from, State to) noexcept;
  std::atomic<State> state_{};
};

/// A buffer that a reader fills and copies are made from.
struct PinnedSlot {
  PinnedSlot(const gpu::Device& device, gpu::PinnedSpan memory, std::size_t rank);

  const gpu::PinnedSpan memory;
  const std::size_t rank;  // local: whose ring it is of
  gpu::Event copied;       // recorded after the copies from it
  SlotState<PinnedState> state;
  BatchId batch;
  bool ends_epoch = false;               // it holds no batch, but the news that there are no more
  std::vector<PositionRange> positions;  // of the batch's samples (packed: elements), in the epoch
  std::vector<Piece> pieces;             // packed: which samples these are of
  std::uint64_t sequence = 0;     // in the stream of all that its rank is sent; gives the order
  std::uint64_t generation = 0;   // of the consumer's request that it serves
  std::exception_ptr error;       // why it could not be filled
  std::size_t attempted = 0;      // samples
  std::vector<Failure> failures;  // of these
  TracedBatch* traced = nullptr;  // where it is recorded, if it is
};

/// Streams that one lease may be used on.
inline constexpr std::size_t kMaxStreams = 4;

/// A buffer that a batch is copied to, and leased in.
struct DeviceSlot {
  DeviceSlot(const gpu::Device& device, gpu::DeviceSpan memory, const BatchLayout& layout,
             std::size_t number);

  const std::size_t number;  // in its ring
  const gpu::DeviceSpan memory;
  gpu::Event ready;                                    // recorded after all that fills it
  std::vector<gpu::Event> released;                    // one for each stream it may be used on
  std::vector<std::optional<gpu::StreamRef>> streams;  // bound by the lease: the first `bound`
  std::size_t bound = 0;
  std::optional<gpu::StreamRef> due;  // the lease binds it when it is first used
  SlotState<DeviceState> state;
  BatchId batch;
  std::size_t attempted = 0;                      // samples, when they were read
  std::vector<Failure> failures;                  // of these: charged when the batch is handed out
  std::vector<std::vector<std::int64_t>> shapes;  // of the tensors, rows first

  /// What the probe (feeder/stats/batch_probe.h) records the batch in.
  struct Marks {
    std::shared_ptr<StepTiming> timing;  // of the sampled steps that this is one of, or null
    StepPart part{};                     // which of them
    TracedBatch* traced = nullptr;       // null: not traced
  };
  Marks marks;
};

}  // namespace leat::feeder
