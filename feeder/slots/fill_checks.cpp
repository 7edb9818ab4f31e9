#include "leat/feeder/slots/fill_checks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "leat/csp/error.h"

namespace leat::feeder {
namespace {

constexpr std::byte kUnread = ~kPoison;  // under a sample that is read again

}  // namespace

FillChecks::FillChecks(const gpu::Device& device, const BatchLayout& layout)
    : device_(device),
      layout_(layout),
      memory_(layout.staged_bytes() / BatchLayout::kAlignment),
      page_{.is = std::as_writable_bytes(std::span(memory_)), .should = {}},
      filled_{.is = {}, .should = {}} {
  page_.should.resize(layout.staged_bytes());
  filled_.should.resize(layout.staged_bytes());
}

void FillChecks::fill(const PinnedSlot& slot, const Dataset& dataset,
                      const std::function<void(const Dataset&)>& read_from) {
  slot_ = &slot;
  dataset_ = &dataset;
  failure_.clear();
  std::ranges::fill(page_.is, kPoison);
  std::ranges::fill(page_.should, kPoison);
  try {
    read_from(*this);
  } catch (const Error&) {
    if (!failure_.empty()) throw Error(failure_);  // which came first
    throw;
  }
  // What the slot holds now is right, but for the samples: these are as in the page. The reader
  // completes those of variable length, and may move them.
  filled_.is = slot.memory.bytes();
  std::ranges::copy(filled_.is, filled_.should.begin());
  for (std::size_t f = 0; f < dataset.fields().size(); ++f) {
    const TensorLayout& tensor = layout_.staged()[f];
    if (dataset.fields()[f].variable_length) continue;
    std::memcpy(filled_.should.data() + tensor.offset, page_.should.data() + tensor.offset,
                slot.batch.samples * tensor.sample_bytes);
  }
  expect("a read has written into another row, or after it had returned");
}

void FillChecks::expect_kept() { expect("a read has written after its batch was filled"); }

void FillChecks::expect(const char* else_what) const {
  expect(page_, 0, page_.is.size(), else_what);
  expect(filled_, 0, filled_.is.size(), else_what);
  if (!failure_.empty()) throw Error(failure_);
}

void FillChecks::read(std::uint64_t sample, Sample& out) const {
  const std::span<std::byte> memory = slot_->memory.bytes();
  const std::span<const std::span<std::byte>> given = out.rooms_;
  std::vector<std::span<std::byte>> pages(given.begin(), given.end());
  std::vector<Room> rooms;
  for (std::size_t f = 0; f < pages.size(); ++f) {
    std::span<std::byte>& page = pages[f];
    const auto at = static_cast<std::size_t>(page.data() - memory.data());  // huge: before it
    if (page.empty() || at >= memory.size()) continue;                      // a piece's, in scratch
    const Room room{.field = f,
                    .at = at,
                    .slot = page,
                    .page = page_.is.subspan(at, page.size()),
                    .kept = std::span(page_.should).subspan(at, page.size())};
    page = room.page;
    rooms.push_back(room);
  }
  const auto poison = [&] {
    for (const Room& room : rooms) {
      std::ranges::fill(room.page, kPoison);
      std::ranges::fill(room.kept, kPoison);
    }
  };
  poison();  // a sample before it may have failed
  out.rooms_ = pages;
  try {
    read_fully(sample, out, rooms);
  } catch (...) {
    out.rooms_ = given;
    poison();
    throw;
  }
  out.rooms_ = given;
  for (const Room& room : rooms) {
    // The row before and the row behind, if they are of the same tensor; behind the last one, its
    // padding.
    const std::string what =
        "a read of sample " + std::to_string(sample) + " has written outside its row";
    const auto next =
        std::ranges::upper_bound(layout_.staged(), room.at, {}, &TensorLayout::offset);
    const TensorLayout& tensor = *std::prev(next);
    const std::size_t end = next == layout_.staged().end() ? page_.is.size() : next->offset;
    const std::size_t behind = room.at + room.page.size();
    expect(page_, std::max(tensor.offset, room.at - std::min(room.at, tensor.sample_bytes)),
           room.at, what);
    expect(page_, behind, std::min(end, behind + tensor.sample_bytes), what);
    std::ranges::copy(room.page, room.kept.begin());
    std::ranges::copy(room.page, room.slot.begin());
  }
}

// Reads the sample, and once more if some of it may be unwritten.
void FillChecks::read_fully(std::uint64_t sample, Sample& out, std::span<const Room> rooms) const {
  const Random random = out.random();
  dataset_->read(sample, out);
  std::vector<Room> written;  // what the read had to write
  for (Room room : rooms) {
    const std::size_t bytes = out.length(room.field) * out.fields()[room.field].row_bytes();
    if (bytes == 0) continue;
    room.page = room.page.first(std::min(bytes, room.page.size()));
    written.push_back(room);
  }
  const auto looks_unwritten = [](const Room& room) {
    const std::span<std::byte> one = room.page;
    return (one.front() == kPoison || one.back() == kPoison);
  };
  if (std::ranges::none_of(written, looks_unwritten)) return;
  for (const Room& room : written) {
    std::ranges::copy(room.page, room.kept.begin());
    std::ranges::fill(room.page, kUnread);
  }
  out.random() = random;
  dataset_->read(sample, out);
  for (const Room& room : written) {
    for (std::size_t i = 0; i < room.page.size(); ++i) {
      if (room.kept[i] != kPoison || room.page[i] != kUnread) continue;
      fail(page_, room.at + i,
           "a read of sample " + std::to_string(sample) + " has left a byte unwritten");
    }
  }
}

void FillChecks::expect(const Watched& watched, std::size_t begin, std::size_t end,
                        const std::string& else_what) const {
  const std::byte* const is = watched.is.data();
  const std::byte* const should = watched.should.data();
  if (std::memcmp(is + begin, should + begin, end - begin) == 0) return;
  fail(watched,
       static_cast<std::size_t>(std::mismatch(is + begin, is + end, should + begin).first - is),
       else_what);
}

// What is found is no failure of a sample, which may be within the budget: expect() throws it.
void FillChecks::fail(const Watched& watched, std::size_t byte, const std::string& what) const {
  if (!failure_.empty()) return;
  const bool is_page = &watched == &page_;  // where rows have their most bytes
  failure_ = "leat: check_slots: reader: " + what + ", in pinned slot " +
             std::to_string(slot_->number) + " of " + device_.name() + " (" +
             layout_.place_of(byte, is_page ? std::span<const std::size_t>() : slot_->longest) +
             "), which has " + name_of(slot_->batch);
}

}  // namespace leat::feeder
