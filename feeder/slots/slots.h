// Staging slots: the buffers that circulate through the prefetcher.
//
// There are two rings of slots, allocated once.
//
// Slot   | written by      | free again
// pinned | a CPU           | when its copy is done, which a fiber awaits
// device | the copy stream | when its release events are recorded; the copy stream waits for them
//
// Always true: a slot's state changes only through move_on(), which checks the state that the slot
// had. Between two moves exactly one stage owns the slot.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/batch_source.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/plan/packing.h"
#include "leat/feeder/slots/failures.h"
#include "leat/feeder/slots/layout.h"
#include "leat/feeder/stats/batch_record.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// Returns the rows of a tensor in `batch`.
[[nodiscard]] std::size_t rows_of(const TensorLayout& tensor, const BatchId& batch) noexcept;

/// Returns the bytes of a tensor in the batch of a pinned or device slot.
template <class Slot>
[[nodiscard]] std::size_t bytes_of(const TensorLayout& tensor, const Slot& slot) noexcept {
  return rows_of(tensor, slot.batch) * row_bytes_of(tensor, slot.longest);
}

/// Where a pinned slot is.
enum class PinnedState : std::uint8_t {
  kFree,     // in the channel of free pinned slots
  kFilling,  // with a reader
  kFilled,   // on its way to the copier
  kCopying,  // a copy from it is enqueued
};
/// Where a device slot is.
enum class DeviceState : std::uint8_t {
  kFree,      // in the channel of free device slots; no release events to wait for
  kCopying,   // with the copier, which enqueues a copy into it
  kReady,     // on its way to the consumer; its ready event orders the copy before any use
  kLeased,    // with the consumer
  kReleased,  // in the channel of free device slots; its release events are recorded
};
[[nodiscard]] const char* to_string(PinnedState state) noexcept;
[[nodiscard]] const char* to_string(DeviceState state) noexcept;

/// A state that changes in checked steps. Aborts, naming both states, if the slot was not in the
/// expected one.
template <class State>
class SlotState {
 public:
  void move_on(State from, State to) noexcept {
    // relaxed: the channels that pass the slot on order everything else. The exchange is atomic
    // only so that a failing check is no data race.
    const State found = state_.exchange(to, std::memory_order_relaxed);
    if (found != from) fail(found, from, to);
  }
  [[nodiscard]] State now() const noexcept { return state_.load(std::memory_order_relaxed); }

 private:
  [[noreturn]] static void fail(State found, State from, State to) noexcept;
  std::atomic<State> state_{};
};

/// A buffer that a reader fills and that is then copied to the device, with its batch's record.
struct PinnedSlot : BatchRecord {
  PinnedSlot(const gpu::Device& device, gpu::PinnedSpan memory, const BatchLayout& layout,
             std::size_t rank, std::size_t number);

  const std::size_t number;  // the slot's index in its ring
  gpu::PinnedSpan memory;
  const std::size_t rank;  // the local rank whose ring has this slot
  gpu::Event copied;       // recorded after the copies from the slot
  SlotState<PinnedState> state;
  bool ends_epoch = false;               // no batch, but the end of an epoch
  std::vector<PositionRange> positions;  // of the batch's samples (packed: elements)
  std::vector<Piece> pieces;             // packed: the pieces of samples in the batch
  std::uint64_t sequence = 0;            // place among all that the rank is sent
  std::exception_ptr error;              // set if reading the batch failed
  std::vector<std::size_t> longest;      // by dataset field, for row_bytes_of()
  std::vector<Failure> failures;         // the failed samples
  // Of a batch source.
  struct Sourced {
    std::unique_ptr<gpu::PinnedArena> arena;  // the slot's memory
    std::size_t pinned_bytes = 0;             // 0: it is not pinned
    std::uint64_t memory_number = 0;
    std::shared_ptr<const BatchLayout> layout;
    std::string opaque;
    DrawnKeys keys;
    std::uint64_t first = 0;         // rows drawn before, in the epoch
    bool is_skipped = false;         // there is no such batch
    bool is_rest = false;            // its pass has the rest of a resumed epoch
    bool is_error_of_batch = false;  // `error` ends this batch alone
  };
  Sourced of_source;
};

/// The most streams that one lease may be used on.
inline constexpr std::size_t kMaxStreams = 4;

struct DeviceSlot;

/// One of the batches that a device slot has had.
struct Turn {
  DeviceSlot* slot = nullptr;
  std::uint64_t number = 0;  // DeviceSlot::Use::turn
};

/// A buffer that a batch is copied to, with its record. A lease hands it to the consumer.
struct DeviceSlot : BatchRecord {
  /// How the consumer uses the batch, on the host's clock. Used by Steps.
  struct Use {
    std::uint64_t turn = 0;                  // how many times the slot was handed out
    bool is_open = false;                    // handed out, and its step has not ended
    bool is_marked = false;                  // the end is recorded on the first stream
    bool cpu_waits = false;                  // the CPU began to wait for the copy
    bool cpu_waited = false;                 // the CPU has waited for the copy, which is done
    Duration waited = Duration::zero();      // of the consumer, for this batch
    Duration late_waits = Duration::zero();  // of all batches, when it last stopped waiting
    TimePoint received;                      // when it last stopped waiting
  };
  // What one thread only reads, or does not touch, is in no cache line that the other writes.
  Use use;

  DeviceSlot(const gpu::Device& device, gpu::DeviceSpan memory, const BatchLayout& layout,
             std::size_t number);

  alignas(64) const std::size_t number;  // the slot's index in its ring
  gpu::DeviceSpan memory;
  gpu::Event ready;                  // recorded after the copies and the transform
  std::vector<gpu::Event> released;  // one for each stream of the lease
  std::vector<std::optional<gpu::StreamRef>> streams;  // bound by the lease: the first `bound`
  std::vector<std::size_t> longest;                    // by dataset field, for row_bytes_of()
  std::vector<std::vector<std::int64_t>> shapes;       // of the tensors; rows first

  alignas(64) SlotState<DeviceState> state;
  std::size_t bound = 0;
  Turn before;                        // its step ends when this lease is first used
  std::optional<gpu::StreamRef> due;  // to be bound when the lease is first used

  /// Has room for a batch of `from`, and takes over its layout and opaque bytes. The slot is free.
  void take(const gpu::Device& device, PinnedSlot& from);
  const BatchLayout* layout;  // the ring's, or of_source's
  // Of a batch source.
  struct Sourced {
    std::optional<gpu::DeviceBuffer> buffer;  // the slot's memory
    std::shared_ptr<const BatchLayout> layout;
    std::string opaque;
  };
  Sourced of_source;

  std::vector<Failure> failures;  // charged when the batch is handed out
  std::mutex use_mutex;           // SlotRing::guard(); never held across a park
};

}  // namespace leat::feeder
