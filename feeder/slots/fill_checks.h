// For debugging: finds readers that write too late, write elsewhere, or do not write.
//
//   given to a reader ─► poisoned
//   a sample is read  ─► all its bytes must be written, and none around them
//   filled            ─► must hold what was read, and poison elsewhere
//   copied            ─► must still hold that, before the copy and behind it
//
// A byte that still looks like poison may have been written so. The sample is then read once more,
// over other bytes. Only the first and the last byte of each tensor's row are looked at for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "leat/feeder/slots/layout.h"
#include "leat/feeder/slots/slots.h"
#include "leat/gpu/device.h"

namespace leat::feeder {

/// The value of every byte of a poisoned slot. A float of these bytes is about -3.0e16; an index is
/// out of range.
inline constexpr std::byte kPoison{0xDB};

/// The checks of one device's pinned slots. The owner of a slot calls them. A check that fails
/// throws leat::Error, with slot, byte, row, tensor and batch.
class FillChecks {
 public:
  /// Keeps a reference to the layout.
  FillChecks(const gpu::Device& device, const BatchLayout& layout, std::size_t pinned_slots);

  /// A span of the memory that a reader writes for one tensor. Spans outside the slot are ignored.
  using Rooms = std::span<const std::span<std::byte>>;

  /// A reader is about to fill the slot: poisons it.
  void begin(PinnedSlot& slot);
  /// A sample was read into `written`. Returns whether some of it may be unwritten. If so, the
  /// sample must be read again before sample_read().
  [[nodiscard]] bool looks_unwritten(PinnedSlot& slot, Rooms written);
  /// Checks that the reader has written `written`, and nothing beside `rooms`.
  void sample_read(PinnedSlot& slot, std::uint64_t sample, Rooms written, Rooms rooms);
  /// The sample failed: its rooms are poisoned again.
  void failed(PinnedSlot& slot, Rooms rooms);
  /// These bytes are what they should be from now on.
  void keep(PinnedSlot& slot, std::span<const std::byte> written);
  /// Checks that the slot holds what was kept. `else_what` says what happened if it does not.
  void expect_kept(const PinnedSlot& slot, const char* else_what) const;
  /// What the slot should hold: staged_bytes().
  [[nodiscard]] const std::byte* kept(const PinnedSlot& slot) const noexcept {
    return watched_[slot.number].kept.data();
  }

 private:
  struct Watched {
    std::vector<std::byte> kept;
    bool was_read_again = false;
  };
  void expect_kept(const PinnedSlot& slot, std::size_t begin, std::size_t end,
                   const std::string& what) const;
  [[noreturn]] void fail(const PinnedSlot& slot, std::size_t byte, const std::string& what) const;

  const gpu::Device device_;
  const BatchLayout& layout_;
  std::vector<Watched> watched_;
};

}  // namespace leat::feeder
