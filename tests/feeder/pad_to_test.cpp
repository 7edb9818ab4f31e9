// PadTo::kBatch: rows of variable length are as long as the longest sample of their batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "leat/csp/error.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/function.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"

namespace leat::feeder {
namespace pad_to_test {

using support::kPlaces;
using support::place_title;
using Shape = std::vector<std::int64_t>;

// Two fields of variable length, which differ, and one of fixed length. Samples 8 to 15 have no
// words; reading sample 5 fails.
std::size_t words_of(std::uint64_t sample) { return sample / 8 == 1 ? 0 : sample * 7 % 11; }
std::size_t ids_of(std::uint64_t sample) { return sample * 5 % 9 + 1; }
std::int16_t word(std::uint64_t sample, std::size_t i) {
  return static_cast<std::int16_t>(100 * sample + i + 1);
}

FunctionDataset ragged() {
  return {"ragged",
          {{.name = "words", .dtype = DType::kInt16, .shape = {2000, 2}, .variable_length = true},
           {.name = "label", .dtype = DType::kUint8, .shape = {}},
           {.name = "ids", .dtype = DType::kInt64, .shape = {9}, .variable_length = true}},
          43,
          [](std::uint64_t sample, Sample& out) {
            if (sample == 5) throw std::range_error("sample 5 is bad");
            out.set_length(0, words_of(sample));
            out.set_length(2, ids_of(sample));
            for (std::size_t i = 0; i < 2 * words_of(sample); ++i) {
              out.as<std::int16_t>(0)[i] = word(sample, i);
            }
            out.as<std::uint8_t>(1)[0] = static_cast<std::uint8_t>(sample);
            std::ranges::fill(out.as<std::int64_t>(2), static_cast<std::int64_t>(sample));
          }};
}

Shape shape_of(const Tensor& tensor) { return {tensor.shape().begin(), tensor.shape().end()}; }

// Checks the batch, whose samples "label" names.
void check(Lease& batch) {
  const std::uint8_t* const sample = batch["label"].data<std::uint8_t>();
  const std::size_t rows = batch.rows();
  std::size_t words = 0;
  std::size_t ids = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    words = std::max(words, words_of(sample[i]));
    ids = std::max(ids, ids_of(sample[i]));
  }
  const auto extent = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  ASSERT_EQ(shape_of(batch["words"]), (Shape{extent(rows), extent(words), 2}));
  ASSERT_EQ(shape_of(batch["ids"]), (Shape{extent(rows), extent(ids)}));
  EXPECT_EQ(batch["words"].bytes(), rows * words * 4);
  EXPECT_EQ(batch["ids"].bytes(), rows * ids * 8);
  for (const char* name : {"words", "ids"}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch[name].raw()) % 256, 0U);
  }
  for (std::size_t i = 0; i < rows; ++i) {
    const bool is_padding = i >= batch.size();
    const std::size_t length = is_padding ? 0 : words_of(sample[i]);
    ASSERT_EQ(batch["words.length"].data<std::int32_t>()[i], extent(length));
    for (std::size_t j = 0; j < 2 * words; ++j) {
      ASSERT_EQ(batch["words"].data<std::int16_t>()[2 * words * i + j],
                j < 2 * length ? word(sample[i], j) : 0);
    }
    const std::size_t count = is_padding ? 0 : ids_of(sample[i]);
    ASSERT_EQ(batch["ids.length"].data<std::int32_t>()[i], extent(count));
    for (std::size_t j = 0; j < ids; ++j) {
      ASSERT_EQ(batch["ids"].data<std::int64_t>()[ids * i + j], j < count ? sample[i] : 0);
    }
  }
}

class PadTo : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, PadTo, testing::ValuesIn(kPlaces), place_title);

PrefetcherOptions padding_to_batch(std::size_t batch_size) {
  return {.batch_size = batch_size,
          .order = Order::kSequential,
          .read_failures = {.count = 100},
          .read_across_epochs = false,
          .pad_to = feeder::PadTo::kBatch};
}

TEST_P(PadTo, RowsAreAsLongAsTheLongestSampleOfTheirBatch) {
  in_place([] {
    const FunctionDataset data = ragged();
    for (const LastBatch last : {LastBatch::kPartial, LastBatch::kPad, LastBatch::kWrap}) {
      for (const CheckSlots checks : {CheckSlots::kNo, CheckSlots::kReadOnly}) {
        for (const std::size_t chunk : {0U, 100U}) {
          PrefetcherOptions options = padding_to_batch(4);
          options.workers = 2;
          options.last_batch = last;
          options.check_slots = checks;
          options.copy_chunk_bytes = chunk;
          Prefetcher feed(data, gpu::open("host"), options);
          std::size_t bytes = 0;
          for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
            for (Lease& batch : feed.epoch(epoch)) {
              check(batch);
              for (std::size_t i = 0; i < batch.tensors().size(); ++i) {
                bytes += batch.tensors()[i].bytes();
              }
            }
          }
          EXPECT_DOUBLE_EQ(feed.stats().batch_bytes, static_cast<double>(bytes) / 33)
              << "not only these are copied";
        }
      }
    }
  });
}

TEST_P(PadTo, EachRankHasItsOwnAndAnEmptyShardHasNone) {
  in_place([] {
    const FunctionDataset data = ragged();
    Prefetcher feed(data, open_devices(4), padding_to_batch(20));
    for (std::size_t rank = 0; rank < 4; ++rank) {
      for (Lease& batch : feed.rank(rank).epoch(0)) check(batch);
      EXPECT_EQ(feed.rank(rank).stats().batches, 3U);
    }
    std::optional<Lease> empty;
    do {
      empty.reset();
      empty = feed.rank(3).next();
    } while (empty->size() > 0);
    EXPECT_EQ(shape_of((*empty)["words"]), (Shape{0, 0, 2}));
  });
}

// Of a field of its own name, or else of the first one.
TEST_P(PadTo, ADeviceTransformGetsAndWritesRowsOfThatLength) {
  in_place([] {
    const FunctionDataset data = ragged();
    PrefetcherOptions options = padding_to_batch(4);
    options.check_slots = CheckSlots::kYes;
    options.device_transform = {
        .fields = {{"ids", DType::kInt32, {12}, true}, {"sums", DType::kInt32, {2000}, true}},
        .function = [](const TensorSet& in, const TensorSet& out, const gpu::StreamRef& stream) {
          EXPECT_EQ(shape_of(out["ids"]), shape_of(in["ids"]));
          ASSERT_EQ(out["sums"].shape()[1], in["words"].shape()[1]);
          stream.launch_host(
              [in, out, ids = in["ids"].bytes() / 8, sums = out["sums"].bytes() / 4] {
                for (std::size_t i = 0; i < ids; ++i) {
                  out["ids"].data<std::int32_t>()[i] =
                      static_cast<std::int32_t>(-in["ids"].data<std::int64_t>()[i]);
                }
                const std::int16_t* const words = in["words"].data<std::int16_t>();
                for (std::size_t i = 0; i < sums; ++i) {
                  out["sums"].data<std::int32_t>()[i] = words[2 * i] + words[2 * i + 1];
                }
              });
        }};
    Prefetcher feed(data, gpu::open("host"), options);
    for (Lease& batch : feed.epoch(0)) {
      const std::int64_t columns = batch["ids"].shape()[1];
      for (std::size_t i = 0; i < batch.size(); ++i) {
        EXPECT_EQ(batch["ids"].data<std::int32_t>()[i * static_cast<std::size_t>(columns)],
                  -static_cast<int>(batch["label"].data<std::uint8_t>()[i]));
      }
      const std::vector<std::int64_t> sums = shape_of(batch["sums"]);
      EXPECT_EQ(sums, (Shape{batch["words"].shape()[0], batch["words"].shape()[1]}));
    }
    options.device_transform.fields[1].shape = {1999};
    expect_throws<std::invalid_argument>(
        [&] { Prefetcher(data, gpu::open("host"), options); },
        {"\"sums\" has no room for the length of field \"words\", which is up to 2000"});
  });
}

TEST_P(PadTo, AReadThatWritesIntoAnotherRowIsFoundBeforeTheRowsMove) {
  in_place([] {
    std::int64_t* first = nullptr;
    const FunctionDataset data(
        "late", {{.name = "x", .dtype = DType::kInt64, .shape = {50}, .variable_length = true}}, 8,
        [&](std::uint64_t sample, Sample& out) {
          const std::span<std::int64_t> x = out.as<std::int64_t>(0);
          out.set_length(0, 3);
          std::fill_n(x.begin(), 3, 1);
          if (sample == 0) first = x.data();
          if (sample == 3) first[1] = 7;
        });
    PrefetcherOptions options = padding_to_batch(4);
    options.check_slots = CheckSlots::kYes;
    Prefetcher feed(data, gpu::open("host"), options);
    expect_throws<Error>([&] { static_cast<void>(feed.next()); },
                         {"a read has written into another row", "in row 0 of tensor \"x\""});
  });
}

}  // namespace pad_to_test
}  // namespace leat::feeder
