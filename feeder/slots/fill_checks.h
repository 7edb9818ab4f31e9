// For debugging: finds readers that write too late, write elsewhere, or do not write.
//
// A sample is not read into its slot, but into a page with the same layout. It is copied from there
// when the read has returned: what a reader writes later reaches no batch.
//
//   given to a reader ─► the page is poisoned
//   a sample is read  ─► all its bytes must be written, and none around them
//   filled            ─► the page must hold what was read, and poison elsewhere; the slot, in rows
//                        of a fixed length, the same
//   copied            ─► both must still hold that, before the copy and behind it
//
// A byte that still looks like poison may have been written so. The sample is then read once more,
// over other bytes. Only the first and the last byte of each tensor's row are looked at for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/slots/slots.h"
#include "leat/gpu/device.h"

namespace leat::feeder {

/// The value of every byte of a poisoned slot. A float of these bytes is about -3.0e16; an index is
/// out of range.
inline constexpr std::byte kPoison{0xDB};

/// The checks of one pinned slot: the dataset that its reader reads from. The slot's owner calls.
class FillChecks final : public Dataset {
 public:
  /// Keeps references.
  FillChecks(const gpu::Device& device, const BatchLayout& layout);

  /// Has the slot filled from `dataset`: calls `read_from` with *this, from which it has to read.
  /// Throws leat::Error, with slot, byte, row, tensor and batch, if a read was wrong, or if there
  /// was a write beside the reads.
  void fill(const PinnedSlot& slot, const Dataset& dataset,
            const std::function<void(const Dataset&)>& read_from);
  /// Throws likewise if there was a write since.
  void expect_kept();

  [[nodiscard]] std::string_view name() const noexcept override { return dataset_->name(); }
  [[nodiscard]] std::span<const Field> fields() const noexcept override {
    return dataset_->fields();
  }
  [[nodiscard]] std::uint64_t size() const noexcept override { return dataset_->size(); }
  /// Checks what it reads into the slot. For one reader at a time.
  void read(std::uint64_t sample, Sample& out) const override;

 private:
  // A tensor of the sample that is read.
  struct Room {
    std::size_t field;
    std::size_t at;  // in the slot, and in the page
    std::span<std::byte> slot, page, kept;
  };
  void read_fully(std::uint64_t sample, Sample& out, std::span<const Room> rooms) const;
  // Memory, and what it should hold.
  struct Watched {
    std::span<std::byte> is;
    std::vector<std::byte> should;
  };
  void expect(const char* else_what) const;
  void expect(const Watched& watched, std::size_t begin, std::size_t end,
              const std::string& else_what) const;
  void fail(const Watched& watched, std::size_t byte, const std::string& what) const;

  const gpu::Device& device_;
  const BatchLayout& layout_;
  const PinnedSlot* slot_ = nullptr;
  const Dataset* dataset_ = nullptr;
  struct alignas(BatchLayout::kAlignment) Aligned {
    std::byte bytes[BatchLayout::kAlignment];
  };
  mutable std::vector<Aligned> memory_;  // as a slot is: of the page
  mutable Watched page_;
  Watched filled_;               // the slot, once it is filled
  mutable std::string failure_;  // the batch's first
};

}  // namespace leat::feeder
