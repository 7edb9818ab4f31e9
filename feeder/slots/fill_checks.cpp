#include "leat/feeder/slots/fill_checks.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "leat/csp/error.h"

namespace leat::feeder {
namespace {

constexpr std::byte kUnread = ~kPoison;  // under a sample that is read again

// Returns where a span begins in the slot, if it is there and not empty.
std::optional<std::size_t> offset_in(const PinnedSlot& slot, std::span<const std::byte> span) {
  const std::span<std::byte> memory = slot.memory.bytes();
  const bool is_inside =
      span.data() >= memory.data() && span.data() + span.size() <= memory.data() + memory.size();
  if (span.empty() || !is_inside) return std::nullopt;
  return static_cast<std::size_t>(span.data() - memory.data());
}

}  // namespace

FillChecks::FillChecks(const gpu::Device& device, const BatchLayout& layout,
                       std::size_t pinned_slots)
    : device_(device), layout_(layout), watched_(pinned_slots) {
  for (Watched& one : watched_) one.kept.resize(layout.staged_bytes());
}

void FillChecks::fail(const PinnedSlot& slot, std::size_t byte, const std::string& what) const {
  throw Error("leat: check_slots: reader: " + what + ", in pinned slot " +
              std::to_string(slot.number) + " of " + device_.name() + " (" +
              layout_.place_of(byte, slot.longest) + "), which has " + name_of(slot.batch));
}

void FillChecks::begin(PinnedSlot& slot) {
  std::ranges::fill(slot.memory.bytes(), kPoison);
  std::ranges::fill(watched_[slot.number].kept, kPoison);
  watched_[slot.number].was_read_again = false;
  for (const TensorLayout& tensor : layout_.staged()) {  // until the rows are closed
    if (!tensor.length_of.has_value()) continue;
    slot.longest[*tensor.length_of] = static_cast<std::size_t>(tensor.field.shape[0]);
  }
}

bool FillChecks::looks_unwritten(PinnedSlot& slot, Rooms written) {
  const bool looks = std::ranges::any_of(written, [&](const std::span<std::byte>& one) {
    return offset_in(slot, one).has_value() && (one.front() == kPoison || one.back() == kPoison);
  });
  if (!looks) return false;
  for (const std::span<std::byte>& one : written) {
    keep(slot, one);
    if (offset_in(slot, one).has_value()) std::ranges::fill(one, kUnread);
  }
  return watched_[slot.number].was_read_again = true;
}

void FillChecks::sample_read(PinnedSlot& slot, std::uint64_t sample, Rooms written, Rooms rooms) {
  Watched& watched = watched_[slot.number];
  const std::string name = "sample " + std::to_string(sample);
  for (const std::span<std::byte>& one : written) {
    const auto at = offset_in(slot, one);
    if (!at.has_value() || !watched.was_read_again) continue;
    for (std::size_t i = 0; i < one.size(); ++i) {
      if (watched.kept[*at + i] != kPoison || one[i] != kUnread) continue;
      fail(slot, *at + i, "a read of " + name + " has left a byte unwritten");
    }
  }
  watched.was_read_again = false;
  for (const std::span<std::byte>& one : rooms) {
    const auto at = offset_in(slot, one);
    if (!at.has_value()) continue;
    // The row before and the row behind, if they are of the same tensor; behind the last one, its
    // padding.
    std::size_t begin = 0;
    std::size_t end = layout_.staged_bytes();
    std::size_t row = 0;
    for (const TensorLayout& tensor : layout_.staged()) {
      if (tensor.offset > *at) {
        end = tensor.offset;
        break;
      }
      begin = tensor.offset;
      row = tensor.sample_bytes;
    }
    const std::string what = "a read of " + name + " has written outside its row";
    expect_kept(slot, std::max(begin, *at - std::min(*at, row)), *at, what);
    const std::size_t behind = *at + one.size();
    expect_kept(slot, behind, std::min(end, behind + row), what);
  }
}

void FillChecks::failed(PinnedSlot& slot, Rooms rooms) {
  watched_[slot.number].was_read_again = false;
  for (const std::span<std::byte>& one : rooms) {
    if (!offset_in(slot, one).has_value()) continue;
    std::ranges::fill(one, kPoison);
    keep(slot, one);
  }
}

void FillChecks::keep(PinnedSlot& slot, std::span<const std::byte> written) {
  if (const auto at = offset_in(slot, written)) {
    std::memcpy(watched_[slot.number].kept.data() + *at, written.data(), written.size());
  }
}

void FillChecks::expect_kept(const PinnedSlot& slot, const char* else_what) const {
  expect_kept(slot, 0, layout_.staged_bytes(), else_what);
}

void FillChecks::expect_kept(const PinnedSlot& slot, std::size_t begin, std::size_t end,
                             const std::string& what) const {
  const std::byte* const is = slot.memory.bytes().data();
  const std::byte* const should = kept(slot);
  if (std::memcmp(is + begin, should + begin, end - begin) == 0) return;
  fail(slot,
       static_cast<std::size_t>(std::mismatch(is + begin, is + end, should + begin).first - is),
       what);
}

}  // namespace leat::feeder
