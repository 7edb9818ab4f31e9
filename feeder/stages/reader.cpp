#include "leat/feeder/stages/reader.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "leat/csp/base/kept_exception.h"
#include "leat/csp/error.h"
#include "leat/feeder/map.h"
#include "leat/feeder/plan/packing.h"
#include "leat/feeder/slots/copy.h"

namespace leat::feeder {
namespace {

// How many samples ahead of the read the dataset is asked to prefetch. Shuffled windows of 1024
// tokens in memory take 690 ns each without, 380 ns with one ahead, 350 ns with two, and no less
// with more.
constexpr std::size_t kAhead = 2;

}  // namespace

Reader::Reader(const Shared& shared, Reading& reading, std::stop_token stop)
    : dataset_(shared.dataset),
      options_(shared.options),
      sampler_(shared.sampler),
      failures_(shared.failures),
      work_(shared.work),
      reading_(reading),
      stop_(std::move(stop)),
      rooms_(dataset_.fields().size()),
      lengths_(dataset_.fields().size()),
      announcer_(dataset_, options_.seed),
      meter_(dataset_.blocking(), shared.is_virtual) {
  if (options_.packing.has_value()) return;
  const auto most =
      static_cast<std::size_t>(std::min<std::uint64_t>(options_.batch_size, dataset_.size()));
  samples_.reserve(most);
  early_samples_.reserve(most);
}

PinnedSlot& Reader::next() {
  listed_ = early_;
  if (early_ != nullptr) {
    samples_.swap(early_samples_);
    announced_ = early_announced_;
    return *std::exchange(early_, nullptr);
  }
  return **work_.recv();  // never closed: the stages end by cancellation
}

ReadCost Reader::fill(PinnedSlot& slot, const BatchLayout& layout, const Dataset& source,
                      bool bypasses_cache) {
  meter_.begin();
  if (&slot != listed_) {
    list_samples(slot, samples_);
    announced_ = 0;
    announcer_.clear();
  }
  source_ = &source;
  past_cache_bytes_ = 0;
  // close_rows() reads back what was read.
  const bool is_read_back = options_.pad_to == PadTo::kBatch &&
                            std::ranges::any_of(dataset_.fields(), &Field::variable_length);
  past_cache_ = bypasses_cache && !is_read_back ? &past_cache_bytes_ : nullptr;
  slot.attempted = 0;
  slot.failures.clear();
  if (options_.packing.has_value()) {
    fill_pieces(slot, layout);
  } else {
    fill_samples(slot, layout);
  }
  if (options_.pad_to == PadTo::kBatch) close_rows(slot, layout);
  pad(slot, layout);
  return meter_.end();
}

// Lists the samples of the slot's batch, in the order of their reads.
void Reader::list_samples(const PinnedSlot& slot, std::vector<std::uint64_t>& samples) const {
  samples.clear();
  for (const Piece& piece : slot.pieces) {
    samples.push_back(sampler_.at(slot.batch.epoch, piece.position));
  }
  if (options_.packing.has_value()) return;
  for (const PositionRange& range : slot.positions) {
    const std::size_t before = samples.size();
    samples.resize(before + static_cast<std::size_t>(range.count));
    sampler_.at(slot.batch.epoch, range.first, std::span(samples).subspan(before));
  }
}

// Called before each read while the data is cold.
void Reader::announce_ahead(const PinnedSlot& slot) {
  announced_ = announcer_.announce(samples_, announced_, slot.batch.epoch);
  if (announced_ == samples_.size() && announcer_.has_room()) {
    if (early_ == nullptr && announcer_.bytes() > 0) take_early();
    if (early_ != nullptr) {
      early_announced_ = announcer_.announce(early_samples_, early_announced_, early_->batch.epoch);
    }
  }
  announcer_.pop();
}

void Reader::take_early() {
  const std::size_t there = work_.size();
  if (there == 0 || there + 1 < options_.workers || options_.autotune.has_value()) return;
  std::optional<PinnedSlot*> slot;
  meter_.pause();  // the fiber may give way, and go on on another thread
  const ChannelStatus status = work_.try_recv(slot);
  meter_.resume();
  if (status != ChannelStatus::ok) return;
  early_ = *slot;
  list_samples(*early_, early_samples_);
  early_announced_ = 0;
}

// Makes the rows of each field of variable length as long as the longest of them. Samples are read
// into rows of the largest length: how long they are is known afterwards.
void Reader::close_rows(PinnedSlot& slot, const BatchLayout& layout) const {
  for (std::size_t f = 0; f < dataset_.fields().size(); ++f) {
    const TensorLayout& tensor = layout.staged()[f];
    if (!tensor.length_of.has_value()) continue;
    std::byte* const memory = slot.memory.bytes().data();
    const std::span lengths(reinterpret_cast<const std::int32_t*>(
                                memory + layout.staged()[layout.lengths_of(f)].offset),
                            slot.batch.samples);
    const auto longest = std::ranges::max_element(lengths);
    slot.longest[f] = longest == lengths.end() ? 0 : static_cast<std::size_t>(*longest);
    const std::size_t step = tensor.field.row_bytes();
    const std::size_t row = slot.longest[f] * step;
    std::byte* const rows = memory + tensor.offset;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      // A row moves towards the beginning, so it overwrites none of those behind it.
      const std::size_t bytes = static_cast<std::size_t>(lengths[i]) * step;
      std::memmove(rows + i * row, rows + i * tensor.sample_bytes, bytes);
      std::memset(rows + i * row + bytes, 0, row - bytes);
    }
  }
}

// Writes zeros behind the samples, if the last batch is padded.
void Reader::pad(PinnedSlot& slot, const BatchLayout& layout) const {
  if (options_.last_batch != LastBatch::kPad) return;
  for (const TensorLayout& tensor : layout.staged()) {
    const bool per_element = tensor.per == RowPer::kElement;
    if (options_.packing.has_value() && !per_element) continue;
    const std::size_t used = per_element ? slot.batch.elements : slot.batch.samples;
    const std::size_t rows = per_element ? slot.batch.element_rows : slot.batch.rows;
    const std::size_t row_bytes = row_bytes_of(tensor, slot.longest);
    const std::span<std::byte> rest =
        slot.memory.bytes().subspan(tensor.offset + used * row_bytes, (rows - used) * row_bytes);
    std::memset(rest.data(), 0, rest.size());
  }
}

void Reader::fill_samples(PinnedSlot& slot, const BatchLayout& layout) {
  const std::span<const Field> fields = dataset_.fields();
  const std::span<std::byte> memory = slot.memory.bytes();
  const bool is_cold = meter_.is_cold();
  std::size_t row = 0;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (is_cold) announce_ahead(slot);
    if (i + kAhead < samples_.size()) {
      dataset_.will_read(samples_[i + kAhead], options_.seed, slot.batch.epoch);
    }
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const TensorLayout& tensor = layout.staged()[f];
      rooms_[f] = memory.subspan(tensor.offset + row * tensor.sample_bytes, tensor.sample_bytes);
    }
    scratch_.reset();
    try {
      read(slot, samples_[i], past_cache_);
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      set_aside_or_throw(slot, samples_[i]);
      continue;
    }
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (fields[f].variable_length) write_length(f, slot, layout, row);
    }
    ++row;
  }
  if (options_.last_batch != LastBatch::kPad) slot.batch.rows = row;
  slot.batch.samples = row;
}

void Reader::read(PinnedSlot& slot, std::uint64_t sample, std::uint64_t* past_cache) {
  if (stop_.stop_requested()) throw Cancelled{};
  ++slot.attempted;
  reading_.sample(sample);
  Sample out(dataset_.fields(), rooms_, lengths_, options_.seed, slot.batch.epoch,
             Random(options_.seed, slot.batch.epoch, sample), scratch_, past_cache);
  source_->read(sample, out);
  check_bools();
}

// Sources name the byte of their files. This is for arrays, and for the functions of users.
void Reader::check_bools() const {
  const std::span<const Field> fields = dataset_.fields();
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (fields[f].dtype != DType::kBool) continue;
    const std::span<const std::byte> data =
        rooms_[f].first(std::min(lengths_[f] * fields[f].row_bytes(), rooms_[f].size()));
    const std::size_t at = first_no_bool(data);
    if (at == data.size()) continue;
    throw Error("element " + std::to_string(at) + " of field \"" + fields[f].name + "\" is " +
                std::to_string(std::to_integer<int>(data[at])) + "; a bool is 0 or 1");
  }
}

// Writes zeros behind the elements that were read, unless close_rows() does, and writes the field's
// length.
void Reader::write_length(std::size_t field, PinnedSlot& slot, const BatchLayout& layout,
                          std::size_t row) const {
  const std::size_t bytes = lengths_[field] * dataset_.fields()[field].row_bytes();
  if (!layout.staged()[field].length_of.has_value()) {
    std::memset(rooms_[field].data() + bytes, 0, rooms_[field].size() - bytes);
  }
  const auto length = static_cast<std::int32_t>(lengths_[field]);
  const TensorLayout& lengths = layout.staged()[layout.lengths_of(field)];
  std::memcpy(slot.memory.bytes().data() + lengths.offset + row * sizeof length, &length,
              sizeof length);
}

// Reads whole samples straight into the slot. Reads a sample of which only a piece is needed into
// scratch memory, and copies the piece. A failed sample leaves no gap.
void Reader::fill_pieces(PinnedSlot& slot, const BatchLayout& layout) {
  const std::span<const Field> fields = dataset_.fields();
  const std::span<std::byte> memory = slot.memory.bytes();
  const std::size_t field = packed_field(dataset_);
  const TensorLayout& offsets = layout.staged()[layout.lengths_of(field)];
  const auto write_offset = [&](std::size_t row, std::size_t element) {
    const auto offset = static_cast<std::int32_t>(element);
    std::memcpy(memory.data() + offsets.offset + row * sizeof offset, &offset, sizeof offset);
  };
  const bool is_cold = meter_.is_cold();
  std::size_t row = 0;
  std::size_t element = 0;
  write_offset(0, 0);
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const Piece& piece = slot.pieces[i];
    const std::uint64_t sample = samples_[i];
    if (is_cold) announce_ahead(slot);
    scratch_.reset();
    std::ranges::fill(rooms_, std::span<std::byte>());
    try {
      const std::uint64_t length = packed_length(dataset_, field, sample);
      for (std::size_t f = 0; f < fields.size(); ++f) {
        const TensorLayout& tensor = layout.staged()[f];
        if (!fields[f].variable_length) {
          rooms_[f] =
              memory.subspan(tensor.offset + row * tensor.sample_bytes, tensor.sample_bytes);
        } else if (piece.count == length) {
          rooms_[f] = memory.subspan(tensor.offset + element * tensor.sample_bytes,
                                     length * tensor.sample_bytes);
        } else {
          rooms_[f] = scratch_.take(length * tensor.sample_bytes);
        }
      }
      read(slot, sample, piece.count == length ? past_cache_ : nullptr);  // not to scratch memory
      copy_piece(piece, sample, memory, layout, element);
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      set_aside_or_throw(slot, sample);
      continue;
    }
    element += piece.count;
    write_offset(++row, element);
  }
  slot.batch.samples = slot.batch.rows = row;
  slot.batch.elements = element;
  if (options_.last_batch != LastBatch::kPad) slot.batch.element_rows = element;
}

void Reader::copy_piece(const Piece& piece, std::uint64_t sample, std::span<std::byte> memory,
                        const BatchLayout& layout, std::uint64_t element) const {
  for (std::size_t f = 0; f < rooms_.size(); ++f) {
    if (!dataset_.fields()[f].variable_length) continue;
    const TensorLayout& tensor = layout.staged()[f];
    const std::size_t length = rooms_[f].size() / tensor.sample_bytes;
    if (lengths_[f] != length) {
      throw Error("leat: sample " + std::to_string(sample) + " was read with a length of " +
                  std::to_string(lengths_[f]) + " in field \"" + tensor.field.name +
                  "\", but Dataset::length() has told " + std::to_string(length));
    }
    if (piece.count == length) continue;
    copy_bytes(
        memory.data() + tensor.offset + element * tensor.sample_bytes,
        rooms_[f].subspan(piece.first * tensor.sample_bytes, piece.count * tensor.sample_bytes),
        past_cache_);
  }
}

// Called while the exception that reading `sample` threw is being handled.
void Reader::set_aside_or_throw(PinnedSlot& slot, std::uint64_t sample) {
  std::exception_ptr cause = kept_exception();
  Failure failure{.sample = {.epoch = slot.batch.epoch,
                             .batch = slot.batch.index,
                             .sample = sample,
                             .error = "unknown exception"},
                  .attempted = slot.attempted,
                  .cause = std::move(cause)};
  try {
    throw;
  } catch (const TransformError& e) {
    failure.sample.stage = FailingStage::kTransform;
    failure.sample.error = e.what();
  } catch (const std::exception& e) {
    failure.sample.error = e.what();
  } catch (...) {  // not a std::exception: no text
  }
  const std::string origin = dataset_.origin(sample, options_.seed, slot.batch.epoch);
  if (!origin.empty()) failure.sample.error.insert(0, origin + ": ");
  if (!failures_.has_budget(failure.sample.stage)) failures_.fail(failure);
  slot.failures.push_back(std::move(failure));
}

}  // namespace leat::feeder
