// One sample on its way from a dataset into a batch: where its tensors go, and what a read may use.
//
// Example: to look at a sample, without a prefetcher
//   leat::feeder::SampleBuffer five(data.fields());
//   data.read(5, five);
//   std::span<const std::uint8_t> label = five.as<std::uint8_t>(1);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "leat/feeder/field.h"
#include "leat/feeder/random.h"

namespace leat::feeder {

/// Memory for the time of one read, handed out from the front. Grows while it is not large enough;
/// after that it allocates nothing. One fiber at a time.
class Scratch {
 public:
  /// `bytes`, aligned to 64, until reset(); not initialised.
  [[nodiscard]] std::span<std::byte> take(std::size_t bytes);
  /// Nothing is taken any more.
  void reset() noexcept;

 private:
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size = 0;
  };
  std::vector<Block> blocks_;  // the last one is handed out from; the others are full
  std::size_t used_ = 0;       // of the last
  std::size_t taken_ = 0;      // of all
};

/// What Dataset::read fills. Made by whoever reads: a prefetcher, or a SampleBuffer. Not copyable;
/// for one fiber at a time, and for the length of one read.
class Sample {
 public:
  /// `rooms[f]` is where field f goes. All spans and `scratch` must outlive the sample.
  Sample(std::span<const Field> fields, std::span<const std::span<std::byte>> rooms,
         std::span<std::size_t> lengths, std::uint64_t epoch, Random random, Scratch& scratch);
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  /// The tensors to write.
  [[nodiscard]] std::span<const Field> fields() const noexcept { return fields_; }
  /// Where field `field` goes: Field::bytes() of pinned memory to be written, or, of a field of
  /// variable length, room for the longest that is accepted here. Not initialised: what is not
  /// written is what the slot held before. Throws std::out_of_range.
  [[nodiscard]] std::span<std::byte> bytes(std::size_t field) const;
  /// The same as elements. Throws std::invalid_argument if T is not the field's type.
  template <class T>
  [[nodiscard]] std::span<T> as(std::size_t field) const {
    const std::span<std::byte> room = typed(field, kDTypeOf<T>);
    return {reinterpret_cast<T*>(room.data()), room.size() / sizeof(T)};
  }
  /// Of a field of variable length: how long this sample is, in its first extent. Without it, the
  /// longest. Throws leat::Error for more than there is room for, std::invalid_argument for a field
  /// of fixed length.
  void set_length(std::size_t field, std::size_t length);
  /// As set; of a field of fixed length, its first extent (1 for a scalar).
  [[nodiscard]] std::size_t length(std::size_t field) const;

  /// The epoch that it is read for; 0 outside a prefetcher.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  /// Random numbers for augmentation.
  [[nodiscard]] Random& random() noexcept { return random_; }
  /// Memory for the time of this read; not initialised, aligned to 64 bytes.
  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes) { return scratch_.take(bytes); }

 private:
  friend class Map;
  [[nodiscard]] std::span<std::byte> typed(std::size_t field, DType wanted) const;

  std::span<const Field> fields_;
  std::span<const std::span<std::byte>> rooms_;
  std::span<std::size_t> lengths_;
  std::uint64_t epoch_;
  Random random_;
  Scratch& scratch_;
};

/// Owns the memory of one sample of such fields. `seed` and the numbers key its random().
class SampleBuffer {
 public:
  explicit SampleBuffer(std::span<const Field> fields, std::uint64_t seed = 0,
                        std::uint64_t epoch = 0, std::uint64_t sample = 0);
  SampleBuffer(const SampleBuffer&) = delete;
  SampleBuffer& operator=(const SampleBuffer&) = delete;

  // NOLINTNEXTLINE(google-explicit-constructor): what reads into a Sample reads into this
  operator Sample&() noexcept { return sample_; }
  /// What was read: of a field of variable length, as much as the sample has. Throws as Sample's.
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t field) const;
  template <class T>
  [[nodiscard]] std::span<const T> as(std::size_t field) const {
    static_cast<void>(sample_.as<T>(field));
    const std::span<const std::byte> read = bytes(field);
    return {reinterpret_cast<const T*>(read.data()), read.size() / sizeof(T)};
  }

 private:
  std::vector<Field> fields_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<std::span<std::byte>> rooms_;
  std::vector<std::size_t> lengths_;
  Scratch scratch_;
  Sample sample_;
};

}  // namespace leat::feeder
