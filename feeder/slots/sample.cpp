#include "leat/feeder/sample.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "leat/csp/error.h"
#include "leat/feeder/slots/copy.h"

namespace leat::feeder {
namespace {

constexpr std::size_t kScratchAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

// Bytes of all fields, aligned. Throws if they are more than any memory has, also where the sum or
// a product would overflow.
std::size_t room_for(std::span<const Field> fields) {
  double sum = kScratchAlignment;
  std::size_t size = kScratchAlignment;
  for (const Field& field : fields) {
    auto bytes = static_cast<double>(size_of(field.dtype));
    for (const std::int64_t extent : field.shape) bytes *= static_cast<double>(extent);
    sum += std::abs(bytes);
    size += aligned(field.bytes());
    if (sum > 0x1p55) {
      throw std::invalid_argument("leat: the fields of a sample up to \"" + field.name +
                                  "\" are larger than any memory");
    }
  }
  return size;
}

std::size_t longest(const Field& field) {
  return field.shape.empty() ? 1 : static_cast<std::size_t>(field.shape[0]);
}

}  // namespace

std::span<std::byte> Scratch::take(std::size_t bytes) {
  const std::size_t size = aligned(std::max<std::size_t>(bytes, 1));
  if (blocks_.empty() || blocks_.back().size - used_ < size) {
    // Room to align the first byte; operator new aligns to 16 only.
    blocks_.push_back(
        {std::make_unique_for_overwrite<std::byte[]>(size + kScratchAlignment), size});
    used_ = 0;
  }
  const Block& block = blocks_.back();
  const auto address = reinterpret_cast<std::uintptr_t>(block.memory.get());
  std::byte* const first = block.memory.get() + (aligned(address) - address);
  const std::span<std::byte> found(first + used_, bytes);
  used_ += size;
  taken_ += size;
  return found;
}

void Scratch::reset() noexcept {
  if (blocks_.size() > 1) {  // replace them by one block of all their sizes
    blocks_.clear();
    try {
      blocks_.push_back(
          {std::make_unique_for_overwrite<std::byte[]>(taken_ + kScratchAlignment), taken_});
    } catch (const std::bad_alloc&) {
      blocks_.clear();  // take() throws, if memory is still short
    }
  }
  used_ = taken_ = 0;
}

Sample::Sample(std::span<const Field> fields, std::span<const std::span<std::byte>> rooms,
               std::span<std::size_t> lengths, std::uint64_t seed, std::uint64_t epoch,
               Random random, Scratch& scratch, std::uint64_t* past_cache)
    : fields_(fields),
      rooms_(rooms),
      lengths_(lengths),
      seed_(seed),
      epoch_(epoch),
      random_(random),
      scratch_(scratch),
      past_cache_(past_cache) {
  for (std::size_t f = 0; f < fields_.size(); ++f) lengths_[f] = longest(fields_[f]);
}

std::span<std::byte> Sample::bytes(std::size_t field) const {
  if (field < fields_.size()) return rooms_[field];
  throw std::out_of_range("leat: a sample of " + std::to_string(fields_.size()) +
                          " fields has no field " + std::to_string(field));
}

void Sample::copy(std::size_t field, std::span<const std::byte> from, std::size_t offset) {
  const std::span<std::byte> room = bytes(field);
  if (offset > room.size() || from.size() > room.size() - offset) {
    throw std::out_of_range("leat: " + std::to_string(from.size()) + " bytes at byte " +
                            std::to_string(offset) + " of field \"" + fields_[field].name +
                            "\" do not fit in its " + std::to_string(room.size()) + " bytes");
  }
  // The reader looks at each bool, and would have to fetch it from memory.
  const bool is_read_back = fields_[field].dtype == DType::kBool;
  copy_bytes(room.data() + offset, from, is_read_back ? nullptr : past_cache_);
}

std::span<std::byte> Sample::typed(std::size_t field, DType wanted) const {
  const std::span<std::byte> room = bytes(field);
  if (fields_[field].dtype == wanted) return room;
  throw std::invalid_argument("leat: field \"" + fields_[field].name + "\" is " +
                              to_string(fields_[field].dtype) + ", not " + to_string(wanted));
}

void Sample::set_length(std::size_t field, std::size_t length) {
  const std::size_t room_bytes = bytes(field).size();  // bytes() checks `field`
  const std::size_t room = room_bytes / fields_[field].row_bytes();
  if (!fields_[field].variable_length) {
    throw std::invalid_argument("leat: field \"" + fields_[field].name +
                                "\" has a fixed length; declare it with variable_length");
  }
  if (length > room) {
    throw Error("leat: field \"" + fields_[field].name + "\" of length " + std::to_string(length) +
                " is longer than the " + std::to_string(room) +
                " there is room for; declare a longer shape[0], or cut the sample");
  }
  lengths_[field] = length;
}

std::size_t Sample::length(std::size_t field) const {
  static_cast<void>(bytes(field));
  return lengths_[field];
}

SampleBuffer::SampleBuffer(std::span<const Field> fields, std::uint64_t seed, std::uint64_t epoch,
                           std::uint64_t sample)
    : fields_(fields.begin(), fields.end()),
      lengths_(fields.size()),
      sample_(
          fields_,
          [this]() -> std::span<const std::span<std::byte>> {
            memory_ = std::make_unique<std::byte[]>(room_for(fields_));
            const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
            std::byte* next = memory_.get() + (aligned(address) - address);
            for (const Field& field : fields_) {
              rooms_.emplace_back(next, field.bytes());
              next += aligned(field.bytes());
            }
            return rooms_;
          }(),
          lengths_, seed, epoch, Random(seed, epoch, sample), scratch_) {}

std::span<const std::byte> SampleBuffer::bytes(std::size_t field) const {
  const std::span<const std::byte> room = sample_.bytes(field);
  return room.first(std::min(room.size(), sample_.length(field) * fields_[field].row_bytes()));
}

}  // namespace leat::feeder
