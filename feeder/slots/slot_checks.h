// For debugging: finds code that writes to a batch, or reads it, after its release, or writes
// behind its rows.
//
//   never used ─► poisoned
//   copied     ─► handed out: the slot must hold the batch that the reader has filled
//   released   ─► looked at: behind the rows the slot must hold poison; kReadOnly: and the batch in
//                 them ─► poisoned
//              ─► copied to again: the slot must still hold the poison
//
// FillChecks checks the batch until it is copied.
// Copies every batch several times, in both directions, and waits for the copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/slots/fill_checks.h"
#include "leat/feeder/slots/layout.h"
#include "leat/feeder/slots/slots.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// The checks of one device's slots. The owner of a slot calls them.
class SlotChecks {
 public:
  SlotChecks(const gpu::Device& device, const BatchLayout& layout, std::size_t pinned_slots,
             std::size_t device_slots, CheckSlots what);
  /// Returns the pinned memory that the checks of one device take.
  [[nodiscard]] static std::size_t pinned_bytes(const BatchLayout& layout,
                                                std::size_t device_slots) noexcept {
    return (3 + device_slots) * layout.bytes();
  }

  /// The checks of what is read into `slot`.
  [[nodiscard]] FillChecks& fills(const PinnedSlot& slot) { return fills_[slot.number]; }
  /// The batch in `from` is about to be copied into `slot`, which was released or never used. Waits
  /// for the device. Throws leat::Error if a read of the batch was wrong, if the previous batch was
  /// changed while it was leased (kReadOnly), if there was a write behind its rows, or if the slot
  /// was written to after its release.
  void before_copy(DeviceSlot& slot, const PinnedSlot& from);
  /// The batch goes to the consumer. Waits for the copy. Throws leat::Error if the slot does not
  /// hold the batch.
  void before_hand_out(DeviceSlot& slot);
  /// The release events are recorded. Enqueues the poisoning and does not wait. Throws GpuError.
  /// Nothing is done after end_stream().
  void released(DeviceSlot& slot);
  /// Nothing is copied into the slots any more: ends the checks' stream. Thread-safe.
  void end_stream() noexcept;

 private:
  struct Watched {
    Watched(const gpu::Device& device, std::size_t bytes);
    std::vector<std::byte> copied;  // the batch that the slot must hold
    gpu::PinnedBuffer seen;         // the slot's bytes at its release
    gpu::Event poisoned;
    bool was_released = false;
    std::string who;  // the last batch and its streams, for errors
  };
  [[nodiscard]] Watched& of(const DeviceSlot& slot) { return watched_[slot.number]; }
  void expect_unchanged(const DeviceSlot& slot) const;
  [[noreturn]] void fail(const DeviceSlot& slot, std::size_t byte, const std::string& what,
                         const std::string& who) const;

  const gpu::Device device_;
  const BatchLayout& layout_;
  std::deque<FillChecks> fills_;  // by slot
  const bool read_only_;
  std::mutex end_mutex_;                       // guards the pointer, against end_stream()
  std::shared_ptr<const gpu::Stream> stream_;  // null: it has ended
  gpu::PinnedBuffer poison_;
  gpu::PinnedBuffer copier_looks_;
  gpu::PinnedBuffer consumer_looks_;
  const gpu::Event copier_looked_;
  const gpu::Event consumer_looked_;
  std::vector<Watched> watched_;
};

}  // namespace leat::feeder
