// Samples: what Dataset::read fills, and the memory and random numbers that a read may use.
//
// Example: read one sample without a prefetcher
//   leat::feeder::SampleBuffer five(data.fields());
//   data.read(5, five);
//   std::span<const std::uint8_t> label = five.as<std::uint8_t>(1);
//
// Thread safety: none; one fiber or thread uses a sample at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "leat/feeder/field.h"
#include "leat/feeder/random.h"

namespace leat::feeder {

/// Memory for the time of one read, handed out from the front. Grows until it is large enough for a
/// read; after that it allocates nothing. For one fiber at a time.
class Scratch {
 public:
  /// Returns `bytes` bytes of memory, aligned to 64 bytes, valid until reset(). Not initialised.
  [[nodiscard]] std::span<std::byte> take(std::size_t bytes);
  /// Takes back all memory that was handed out.
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

/// The sample that Dataset::read fills. A prefetcher or a SampleBuffer makes it, for the length of
/// one read. Not copyable; for one fiber at a time.
class Sample {
 public:
  /// `rooms[f]` is the memory of field f. All spans and `scratch` must outlive the sample. If
  /// `past_cache` is not null, copy() writes past the CPU's caches, and adds the bytes there.
  Sample(std::span<const Field> fields, std::span<const std::span<std::byte>> rooms,
         std::span<std::size_t> lengths, std::uint64_t seed, std::uint64_t epoch, Random random,
         Scratch& scratch, std::uint64_t* past_cache = nullptr);
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  /// Returns the tensors that read() has to write.
  [[nodiscard]] std::span<const Field> fields() const noexcept { return fields_; }
  /// Returns the memory of field `field`: Field::bytes() of pinned memory; for variable length,
  /// room for the longest sample that is accepted here. Not initialised: bytes that are not written
  /// keep what an earlier batch left there. Throws std::out_of_range.
  [[nodiscard]] std::span<std::byte> bytes(std::size_t field) const;
  /// Copies `from` into bytes(field), from byte `offset` on. Like memcpy(), but faster if the
  /// prefetcher's pinned slots together are as large as the L3 cache: copies of 8 KiB and more then
  /// bypass the CPU's caches. So use memcpy() for bytes that the read itself reads back. Throws
  /// std::out_of_range, and writes nothing, if there is no such field or no room for `from`.
  void copy(std::size_t field, std::span<const std::byte> from, std::size_t offset = 0);
  /// bytes(field) as elements. Throws std::invalid_argument if T is not the type of the field.
  template <class T>
  [[nodiscard]] std::span<T> as(std::size_t field) const {
    const std::span<std::byte> room = typed(field, kDTypeOf<T>);
    return {reinterpret_cast<T*>(room.data()), room.size() / sizeof(T)};
  }
  /// Sets the first extent of a field of variable length in this sample. Without this call, the
  /// sample is as long as there is room for. Throws leat::Error if `length` exceeds the room,
  /// std::invalid_argument for a field of fixed length.
  void set_length(std::size_t field, std::size_t length);
  /// Returns the first extent: set by set_length(), else the field's (1 for a scalar).
  [[nodiscard]] std::size_t length(std::size_t field) const;

  /// Returns the seed of the run, PrefetcherOptions::seed; 0 outside a prefetcher.
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  /// Returns the epoch that the sample is read for; 0 outside a prefetcher.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  /// Random numbers for augmentation.
  [[nodiscard]] Random& random() noexcept { return random_; }
  /// Returns `bytes` bytes of memory for the time of this read, aligned to 64. Not initialised.
  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes) { return scratch_.take(bytes); }

 private:
  friend class Map;
  friend class PartSample;
  friend class FillChecks;
  [[nodiscard]] std::span<std::byte> typed(std::size_t field, DType wanted) const;

  std::span<const Field> fields_;
  std::span<const std::span<std::byte>> rooms_;
  std::span<std::size_t> lengths_;
  std::uint64_t seed_;
  std::uint64_t epoch_;
  Random random_;
  Scratch& scratch_;
  std::uint64_t* past_cache_;  // null: copy() is memcpy()
};

/// A sample that owns its memory: to read one sample without a prefetcher.
class SampleBuffer {
 public:
  /// Allocates memory for `fields`. `seed`, `epoch` and `sample` key random(); a read is also told
  /// `seed` and `epoch`.
  explicit SampleBuffer(std::span<const Field> fields, std::uint64_t seed = 0,
                        std::uint64_t epoch = 0, std::uint64_t sample = 0);
  SampleBuffer(const SampleBuffer&) = delete;
  SampleBuffer& operator=(const SampleBuffer&) = delete;

  // NOLINTNEXTLINE(google-explicit-constructor): what reads into a Sample reads into this
  operator Sample&() noexcept { return sample_; }
  /// Returns the bytes that were read; for variable length, as many as this sample has. Throws
  /// std::out_of_range.
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t field) const;
  /// bytes(field) as elements. Throws std::invalid_argument if T is not the type of the field.
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
