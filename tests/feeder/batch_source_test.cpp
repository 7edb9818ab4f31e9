// Batch sources: slots that grow, layouts that differ, drawn orders, errors of one batch, readers
// with batches of their own.
#include "leat/feeder/batch_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/feeder/plan/sampler.h"
#include "leat/feeder/state.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/backends.h"

namespace leat::feeder {
namespace batch_source_test {

// Calls a function for each batch.
class Source : public BatchSource {
 public:
  explicit Source(std::function<void(BatchFill&)> fills, std::uint64_t size = 0)
      : fills_(std::move(fills)), size_(size) {}
  std::string_view name() const noexcept override { return "a source"; }
  std::uint64_t size() const noexcept override { return size_; }
  void fill(BatchFill& batch) const override { fills_(batch); }

 private:
  const std::function<void(BatchFill&)> fills_;
  const std::uint64_t size_;
};

// Writes `numbers` as int64 [n], and a tensor without bytes.
void write(BatchFill& batch, const std::vector<std::int64_t>& numbers, std::string opaque = {}) {
  const auto bytes = std::as_bytes(std::span(numbers));
  batch.grow(bytes.size());
  std::ranges::copy(bytes, batch.memory().begin());
  const std::size_t behind = (bytes.size() + 255) / 256 * 256;
  const std::array tensors{PlacedTensor{"numbers", DType::kInt64, {std::ssize(numbers)}, 0},
                           PlacedTensor{"none", DType::kFloat32, {3, 0}, behind}};
  batch.filled({.layout = layout_of(tensors),
                .rows = numbers.size(),
                .opaque = std::move(opaque),
                .failed = {},
                .times = std::nullopt});
}

std::vector<std::int64_t> numbers_of(Lease&& batch) {
  const Tensor tensor = batch["numbers"];
  EXPECT_EQ(batch["none"].shape().size(), 2U);
  EXPECT_EQ(batch["none"].bytes(), 0U);
  const auto* const data = tensor.data<std::int64_t>();
  return {data, data + tensor.shape()[0]};
}

std::vector<std::vector<std::int64_t>> rest(Prefetcher& feed) {
  std::vector<std::vector<std::int64_t>> all;
  while (std::optional<Lease> batch = feed.next()) all.push_back(numbers_of(*std::move(batch)));
  return all;
}

DrawnKeys key(std::int64_t number) {
  return {.bytes = std::to_string(number), .kind = 1, .rows = 1};
}

// Without errno, which ThreadSanitizer sees fibers of a thread share.
std::int64_t number_of(const BatchFill& batch) {
  const std::string& text = batch.drawn().bytes;
  std::int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void write_key(BatchFill& batch) { write(batch, {number_of(batch)}); }

class BatchSourceOn : public support::BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, BatchSourceOn, testing::ValuesIn(support::test_backends()),
                         support::backend_title);

TEST_P(BatchSourceOn, HasTheSamplesOfThePlanInSlotsThatGrow) {
  with_device([](const gpu::Device& device) {
    const Source source(
        [](BatchFill& batch) {
          std::vector<std::int64_t> numbers(batch.samples().begin(), batch.samples().end());
          numbers.resize(numbers.size() + 100 * batch.index());  // larger than the one before
          write(batch, numbers, "batch " + std::to_string(batch.index()));
        },
        103);
    const gpu::Stream stream(device);
    const Sampler sampler(103, Order::kShuffled, 5);
    Prefetcher feed(source, device, {.batch_size = 10, .workers = 3, .seed = 5});
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      std::size_t index = 0;
      for (Lease& batch : feed.epoch(epoch, stream)) {
        const Tensor tensor = batch["numbers"];
        const gpu::PinnedBuffer copy(device, tensor.bytes());
        gpu::copy_async(stream, copy.span(), gpu::DeviceSpan(tensor.raw(), tensor.bytes()));
        stream.sync();
        ASSERT_EQ(tensor.bytes(), 8 * batch.size());
        const auto* const numbers = reinterpret_cast<const std::int64_t*>(copy.data());
        for (std::size_t i = 0; i < batch.size() - 100 * index; ++i) {
          EXPECT_EQ(numbers[i], static_cast<std::int64_t>(sampler.at(epoch, 10 * index + i)));
        }
        EXPECT_EQ(batch.opaque(), "batch " + std::to_string(index));
        ++index;
      }
      EXPECT_EQ(index, 11U);
    }
  });
}

TEST(BatchSource, ItsSlotsAreMemoryThatOthersMapAndCannotShrink) {
  const Source source([](BatchFill& batch) {
    batch.grow(1);
    const std::uint64_t before = batch.memory_number();
    batch.grow(8);  // there is room for them
    EXPECT_EQ(batch.memory_number(), before);
    batch.grow(100'000);
    EXPECT_NE(batch.memory_number(), before);
    EXPECT_EQ(ftruncate(batch.descriptor(), 0), -1);
    void* const other = mmap(nullptr, 8, PROT_READ | PROT_WRITE, MAP_SHARED, batch.descriptor(), 0);
    ASSERT_NE(other, MAP_FAILED);
    const std::int64_t seven = 7;
    std::memcpy(other, &seven, sizeof seven);
    munmap(other, 8);
    const std::array tensors{PlacedTensor{"numbers", DType::kInt64, {1}, 0},
                             PlacedTensor{"none", DType::kInt8, {0, 2}, 256}};
    batch.filled(
        {.layout = layout_of(tensors), .rows = 1, .opaque = {}, .failed = {}, .times = {}});
  });
  Prefetcher feed(source, gpu::open("host"), {.batch_size = 1, .order = Order::kDrawn});
  feed.start(0);
  feed.rank(0).draw(key(0));
  EXPECT_EQ(numbers_of(*feed.next()), std::vector<std::int64_t>{7});
}

// Every other batch is filled once the next one is asked for.
class Pairs final : public BatchSource {
 public:
  std::string_view name() const noexcept override { return "pairs"; }
  std::size_t requests() const noexcept override { return 2; }
  void fill(BatchFill& batch) const override {
    EXPECT_EQ(batch.reader(), 0U);
    EXPECT_EQ(batch.index(), asked_++) << "not in the order of the slots";
    batch.asked();
    if (batch.index() % 2 == 0) {
      static_cast<void>(next_.recv());
    } else {
      next_.send(0);
    }
    write_key(batch);
  }

 private:
  const Channel<int> next_{0};
  mutable std::uint64_t asked_ = 0;  // by one fiber at a time
};

TEST(BatchSource, AReaderIsAskedForAsManyBatchesAtATimeAsTheSourceTakes) {
  const Pairs source;
  Prefetcher feed(source, gpu::open("host"),
                  {.batch_size = 1, .pinned_slots = 2, .order = Order::kDrawn});
  feed.start(0);
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t i = 0; i < 20; ++i) {
    feed.rank(0).draw(key(i));
    all.push_back({i});
  }
  feed.rank(0).end_draws();
  EXPECT_EQ(rest(feed), all);
  EXPECT_EQ(feed.stats().workers, 1U);
}

TEST(BatchSource, ADrawnOrderGoesOnAfterAResume) {
  const Source source(write_key);
  const PrefetcherOptions options{.batch_size = 1, .workers = 2, .order = Order::kDrawn};
  const gpu::Device device = gpu::open("host");
  std::string state;
  {
    Prefetcher feed(source, device, options);
    feed.start(4);
    for (const std::int64_t one : {50, 51, 52}) feed.rank(0).draw(key(one));
    EXPECT_EQ(numbers_of(*feed.next()), std::vector<std::int64_t>{50});
    feed.next()->abandon();
    EXPECT_EQ(feed.next()->index(), 2U);
    state = feed.state();
    feed.start(5);  // what was drawn for epoch 4 is no longer wanted
    feed.rank(0).draw(key(60));
    feed.rank(0).end_draws();
    EXPECT_EQ(rest(feed), (std::vector<std::vector<std::int64_t>>{{60}}));
    EXPECT_EQ(State::parse(feed.state()).next_epoch(), 5U);
  }
  PrefetcherOptions resumed = options;
  resumed.resume = state;
  Prefetcher feed(source, device, resumed);
  feed.start(4);
  for (const std::int64_t one : {50, 51, 52, 53}) feed.rank(0).draw(key(one));
  feed.rank(0).end_draws();
  EXPECT_EQ(rest(feed), (std::vector<std::vector<std::int64_t>>{{51}, {53}}));
}

TEST(BatchSource, AnErrorOfABatchIsThrownInItsPlaceAndTheFeedGoesOn) {
  const Source source(
      [](BatchFill& batch) {
        if (batch.index() == 1) batch.fail("no batch 1", "its payload", 77);
        write(batch, {batch.samples().begin(), batch.samples().end()});
      },
      6);
  Prefetcher feed(source, gpu::open("host"),
                  {.batch_size = 2, .workers = 2, .order = Order::kSequential});
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    feed.start(epoch);
    EXPECT_EQ(numbers_of(*feed.next()), (std::vector<std::int64_t>{0, 1}));
    try {
      static_cast<void>(feed.next());
      FAIL() << "no error";
    } catch (const BatchError& error) {
      EXPECT_EQ(error.payload(), "its payload");
      EXPECT_EQ(error.sample(), 77U);
      EXPECT_EQ(error.epoch(), epoch);
      EXPECT_EQ(error.batch(), 1U);
    }
    EXPECT_EQ(rest(feed), (std::vector<std::vector<std::int64_t>>{{4, 5}}));
    const State state = State::parse(feed.state());
    ASSERT_FALSE(state.epochs.empty());
    EXPECT_FALSE(state.epochs.back().batches.contains(1)) << "it counts";
  }
}

TEST(BatchSource, AnyOtherErrorEndsTheFeed) {
  const Source source([](BatchFill&) { throw Error("the reader has died"); }, 6);
  Prefetcher feed(source, gpu::open("host"), {.batch_size = 2});
  expect_throws<Error>([&] { static_cast<void>(feed.next()); }, {"the reader has died"});
  expect_throws<Error>([&] { static_cast<void>(feed.next()); }, {"because of an earlier error"});
}

TEST(BatchSource, WhatTheCapDoesNotAllowIsNotPinned) {
  const Source source(
      [](BatchFill& batch) {
        write(batch, std::vector<std::int64_t>(batch.index() == 1 ? 1 << 20 : 8, 7));
      },
      3);
  const gpu::Device device = gpu::open("host");
  {
    Prefetcher feed(source, device,
                    {.batch_size = 1, .order = Order::kSequential, .max_pinned_bytes = 1 << 20});
    EXPECT_EQ(feed.next()->size(), 8U);
    EXPECT_EQ(numbers_of(*feed.next()), std::vector<std::int64_t>(1 << 20, 7));
    EXPECT_LE(device.memory().pinned.used, std::size_t{1} << 20);
    EXPECT_EQ(feed.next()->size(), 8U);
  }
  EXPECT_EQ(device.memory().pinned.used, 0U);
}

// Reader r makes 1000 * r + 0, 1, ... : `counts[r]` batches.
class Streams final : public BatchSource {
 public:
  explicit Streams(std::vector<std::int64_t> counts) : counts_(std::move(counts)) {
    for (Stream& one : streams_) one.ended = ~std::uint64_t{0};
  }
  std::string_view name() const noexcept override { return "streams"; }
  bool is_bound() const noexcept override { return true; }
  bool has_ended(std::size_t reader, std::uint64_t pass) const noexcept override {
    return streams_[reader].ended == pass;
  }
  void fill(BatchFill& batch) const override {
    Stream& stream = streams_[batch.reader()];
    if (std::exchange(stream.pass, batch.pass()) != batch.pass()) stream.next = 0;
    if (stream.next == counts_[batch.reader()]) {
      stream.ended = batch.pass();
      return batch.skip();
    }
    write(batch, {1000 * static_cast<std::int64_t>(batch.reader()) + stream.next++});
  }

 private:
  struct Stream {
    std::uint64_t pass = ~std::uint64_t{0};
    std::int64_t next = 0;
    std::atomic<std::uint64_t> ended;
  };
  const std::vector<std::int64_t> counts_;
  mutable std::array<Stream, 4> streams_;
};

TEST(BatchSource, BoundReadersTakeTurnsUntilEachHasNoMore) {
  const Streams source({3, 1, 0, 2});
  PrefetcherOptions options{.batch_size = 1, .workers = 4, .order = Order::kDrawn};
  const std::vector<std::vector<std::int64_t>> all{{0}, {1000}, {3000}, {1}, {3001}, {2}};
  const gpu::Device device = gpu::open("host");
  {
    Prefetcher feed(source, device, options);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      feed.start(epoch);
      EXPECT_EQ(rest(feed), all);
    }
    feed.start(3);
    for (std::uint64_t i = 0; i < 2; ++i) EXPECT_EQ(feed.next()->index(), i);
    options.resume = feed.state();
  }
  Prefetcher feed(source, device, options);
  feed.start(3);
  EXPECT_EQ(rest(feed), (std::vector<std::vector<std::int64_t>>{{3000}, {1}, {3001}, {2}}));
}

TEST(BatchSource, RefusesWhatItsReadersDoNotDo) {
  const Source source(write_key, 4);
  const gpu::Device device = gpu::open("host");
  const auto refuses = [&](const PrefetcherOptions& options, const std::string& why) {
    expect_throws<std::invalid_argument>([&] { const Prefetcher feed(source, device, options); },
                                         std::initializer_list<std::string_view>{why});
  };
  refuses({.batch_size = 2, .check_slots = CheckSlots::kYes}, "check_slots");
  refuses({.batch_size = 2, .last_batch = LastBatch::kPad}, "last_batch");
  refuses({.batch_size = 2, .autotune = Autotune{}}, "autotune");
  refuses({.batch_size = 2, .order = Order::kDrawn}, "batch_size of 1");
  const std::array twice{PlacedTensor{"a", DType::kInt8, {4}, 0},
                         PlacedTensor{"b", DType::kInt8, {4}, 0}};
  expect_throws<Error>([&] { static_cast<void>(layout_of(twice)); }, {"lies where \"a\" is"});
}

}  // namespace batch_source_test
}  // namespace leat::feeder
