// Which readers of a prefetcher copy past the CPU's caches, by the size of its ring and by what is
// read back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/map.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/slots/copy.h"
#include "leat/feeder/sources/fixed_records.h"
#include "leat/feeder/sources/memory.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/feeder/sources/token_shards.h"
#include "leat/feeder/sources/web_dataset.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "tests/feeder/sources/web_files.h"
#include "tests/support/run.h"
#include "tests/support/texts.h"

namespace leat::feeder {
namespace past_cache_test {

using support::in_virtual_time;

constexpr std::size_t kRow = std::size_t{16} << 10;
constexpr std::size_t kSamples = 8;

// The size of the L3 cache for the time of a test.
class L3 {
 public:
  explicit L3(std::size_t bytes) { set_l3_bytes(bytes); }
  ~L3() { set_l3_bytes(before_); }
  L3(const L3&) = delete;
  L3& operator=(const L3&) = delete;

 private:
  const std::size_t before_ = l3_bytes();
};

// Sample i has the bytes i, i + 1, ...: 16 KiB, or of variable length, 9 KiB.
class Rows final : public Dataset {
 public:
  explicit Rows(bool variable = false)
      : bytes_(variable ? std::size_t{9} << 10 : kRow),
        fields_{{"row", DType::kUint8, {kRow}, variable}} {}
  [[nodiscard]] std::string_view name() const noexcept override { return "rows"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return kSamples; }
  void read(std::uint64_t index, Sample& out) const override {
    if (fields_[0].variable_length) out.set_length(0, bytes_);
    std::vector<std::byte> row(bytes_);
    for (std::size_t i = 0; i < bytes_; ++i) row[i] = static_cast<std::byte>(index + i);
    out.copy(0, row);
  }
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t /*index*/,
                                                  std::size_t /*field*/) const override {
    return fields_[0].variable_length ? std::optional(bytes_) : std::nullopt;
  }

 private:
  const std::size_t bytes_;
  const std::vector<Field> fields_;
};

// The figures behind an epoch, whose bytes are checked where batches hold rows of one device.
Stats stats_of(const Dataset& data, PrefetcherOptions options, std::size_t devices = 1) {
  Stats stats;
  in_virtual_time([&] {
    options.order = Order::kSequential;
    options.read_across_epochs = false;
    std::vector<gpu::Device> all;
    for (std::size_t i = 0; i < devices; ++i) all.push_back(gpu::open_host({}));
    Prefetcher feed(data, all, options);
    std::uint64_t sample = 0;
    for (std::size_t rank = 0; rank < devices; ++rank) {
      for (Lease& batch : feed.rank(rank).epoch(0)) {
        const auto* const bytes = batch["row"].data<std::uint8_t>();
        const std::size_t row =
            devices == 1 && !options.packing ? batch["row"].bytes() / batch.size() : 0;
        for (std::size_t i = 0; row > 0 && i < batch.size(); ++i, ++sample) {
          EXPECT_EQ(bytes[i * row], sample);
          EXPECT_EQ(bytes[i * row + 9000], static_cast<std::uint8_t>(sample + 9000));
        }
      }
    }
    stats = feed.rank(0).stats();
  });
  return stats;
}

constexpr std::size_t kAll = kSamples * kRow;

TEST(PastCache, IsWhereTheRingIsAsLargeAsTheL3Cache) {
  if (fastest_stores() == Stores::kCached) GTEST_SKIP() << "this CPU has no such stores";
  const Rows data;
  const PrefetcherOptions options{.batch_size = 2, .pinned_slots = 3};
  constexpr std::size_t kRing = 3 * 2 * kRow;
  {
    const L3 larger(kRing + 1);
    const Stats stats = stats_of(data, options);
    EXPECT_EQ(stats.ring_bytes, kRing);
    EXPECT_EQ(stats.past_cache_bytes, 0U);
    EXPECT_EQ(stats.copies_text(), "");
  }
  {
    const L3 as_large(kRing);
    const Stats stats = stats_of(data, options);
    EXPECT_EQ(stats.past_cache_bytes, kAll);
    EXPECT_EQ(stats.copies_text(), std::string("  copies into pinned memory bypass the cache (") +
                                       to_string(fastest_stores()) +
                                       " stores): the ring of 98.3 kB is at least as "
                                       "large as the L3 cache of 98.3 kB\n");
  }
  const L3 unknown(0);
  EXPECT_EQ(stats_of(data, options).past_cache_bytes, 0U);
}

TEST(PastCache, TheRingsOfAllDevicesCount) {
  if (fastest_stores() == Stores::kCached) GTEST_SKIP() << "this CPU has no such stores";
  const L3 l3(2 * 3 * 2 * kRow);
  const PrefetcherOptions options{.batch_size = 4, .pinned_slots = 3};
  EXPECT_EQ(stats_of(Rows(), options, 2).past_cache_bytes, kAll);
}

TEST(PastCache, WithAutotuneTheSlotsInUseCount) {
  if (fastest_stores() == Stores::kCached) GTEST_SKIP() << "this CPU has no such stores";
  const PrefetcherOptions options{.batch_size = 2, .pinned_slots = 3, .autotune = Autotune{}};
  {
    const L3 l3(3 * 2 * kRow + 1);  // smaller than the ring may become
    EXPECT_EQ(stats_of(Rows(), options).past_cache_bytes, 0U);
  }
  const L3 l3(3 * 2 * kRow);
  EXPECT_EQ(stats_of(Rows(), options).past_cache_bytes, kAll);
}

TEST(PastCache, RowsThatMoveInTheirSlotGoThroughTheCache) {
  const L3 l3(1);
  EXPECT_EQ(stats_of(Rows(true), {.batch_size = 2, .pad_to = PadTo::kBatch}).past_cache_bytes, 0U);
}

TEST(PastCache, WhatATransformReadsGoesThroughTheCache) {
  const L3 l3(1);
  const Rows data;
  const Map in_place(data, [](Sample&) {});
  EXPECT_EQ(stats_of(in_place, {.batch_size = 2}).past_cache_bytes, 0U);
  const Map computed(data, {{"row", DType::kUint8, {kRow}}}, [](const SampleView& in, Sample& out) {
    std::ranges::copy(in.bytes(0), out.bytes(0).begin());
  });
  EXPECT_EQ(stats_of(computed, {.batch_size = 2}).past_cache_bytes, 0U);
}

// Batches of 16 KiB have pieces of 9 and 7; 2, 9, 5; 4, 9, 3; 6, 9, 1; 8 KiB.
TEST(PastCache, PackedSamplesAndPiecesOf8KiBBypassTheCache) {
  if (fastest_stores() == Stores::kCached) GTEST_SKIP() << "this CPU has no such stores";
  const L3 l3(1);
  std::uint64_t expected = 0;
  constexpr std::size_t kSample = std::size_t{9} << 10;
  constexpr std::size_t kBatch = std::size_t{16} << 10;
  for (std::size_t at = 0; at < kSamples * kSample;) {
    const std::size_t end = std::min((at / kSample + 1) * kSample, (at / kBatch + 1) * kBatch);
    if (end - at >= kLeastPastCache) expected += end - at;
    at = end;
  }
  const Stats stats = stats_of(
      Rows(true), {.batch_size = kBatch, .last_batch = LastBatch::kPad, .packing = Packing{}});
  EXPECT_EQ(stats.past_cache_bytes, expected);
}

// Reads sample 1 as a prefetcher with a large ring does. Returns the bytes that bypassed the cache.
std::uint64_t bypassing(const Dataset& data, const std::vector<Bytes>& expected) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::span<std::byte>> rooms;
  for (const Field& field : data.fields()) memory.emplace_back(field.bytes());
  for (std::vector<std::byte>& room : memory) rooms.emplace_back(room);
  std::vector<std::size_t> lengths(rooms.size());
  Scratch scratch;
  std::uint64_t bytes = 0;
  Sample sample(data.fields(), rooms, lengths, 0, 0, Random(0, 0, 0), scratch, &bytes);
  data.read(1, sample);
  for (std::size_t f = 0; f < expected.size(); ++f) {
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(expected[f])), rooms[f])) << f;
  }
  return bytes;
}

TEST(PastCache, IsWhereEachSourceThatCopiesWrites) {
  if (fastest_stores() == Stores::kCached) GTEST_SKIP() << "this CPU has no such stores";
  constexpr std::size_t kBytes = std::size_t{96} * 96;
  Bytes first(kBytes);
  Bytes second(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) {
    second[i] = static_cast<std::uint8_t>((first[i] = static_cast<std::uint8_t>(i % 83)) + 100);
  }
  const TemporaryDirectory files;
  files.write("a.bin", first + second + Bytes(2));
  const std::vector<Field> fields = {{"row", DType::kUint8, {kBytes}}};
  EXPECT_EQ(
      bypassing(FixedRecords(files.write("records", first + second), {.fields = fields}), {second}),
      kBytes);
  const TokenShards tokens((files.path() / "a.bin").string(),
                           {.sequence_length = kBytes / 2, .dtype = DType::kUint16});
  EXPECT_EQ(bypassing(tokens, {second}), 2 * kBytes);
  const WebDataset web(
      files.write("a.tar", tar_file("0.raw", first) + tar_file("1.raw", second) + tar_end()),
      {.parts = {raw_bytes(fields[0], {"raw"})}});
  EXPECT_EQ(bypassing(web, {second}), kBytes);
  files.write("labels.idx", idx_header({2}) + Bytes{3, 7});
  const Mnist images(files.write("images.idx", idx_header({2, 96, 96}) + first + second));
  EXPECT_EQ(bypassing(images, {second, {7}}), kBytes);
  const Bytes both = first + second;
  EXPECT_EQ(bypassing(InMemory({InMemory::tensor("row", both, {kBytes})}), {second}), kBytes);
}

}  // namespace past_cache_test
}  // namespace leat::feeder
