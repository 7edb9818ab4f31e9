// Where samples are read, and what a dataset hears beforehand.
#include "leat/feeder/stages/read_place.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/map.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/function.h"
#include "leat/gpu/backend/backend.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"

namespace read_place_test {

using namespace leat::feeder;
using std::chrono::microseconds;

constexpr leat::Duration kQuick = microseconds(20);
constexpr leat::Duration kSlow = ReadPlace::kQuick;

TEST(ReadPlace, WhatNeverOrOftenBlocksStaysWhereItIs) {
  ReadPlace fiber(Blocking::kNever);
  ReadPlace thread(Blocking::kOften);
  for (const leat::Duration took : {kQuick, kSlow, kQuick, kQuick}) {
    EXPECT_FALSE(fiber.is_thread());
    EXPECT_TRUE(thread.is_thread());
    fiber.took(took);
    thread.took(took);
  }
}

TEST(ReadPlace, OfWhatSeldomBlocksOneQuickBatchIsEnough) {
  ReadPlace place(Blocking::kSeldom);
  EXPECT_TRUE(place.is_thread());
  place.took(kSlow);
  EXPECT_TRUE(place.is_thread());
  place.took(kQuick);
  EXPECT_FALSE(place.is_thread());
  place.took(kSlow - leat::Duration(1));
  EXPECT_FALSE(place.is_thread());
}

TEST(ReadPlace, EachDisappointmentDoublesWhatIsAskedFor) {
  ReadPlace place(Blocking::kSeldom);
  place.took(kQuick);
  for (const int needed : {2, 4, 8, 16, 32, 64, 64, 64}) {
    ASSERT_FALSE(place.is_thread());
    place.took(kSlow);
    for (int quick = 0; quick < needed; ++quick) {
      ASSERT_TRUE(place.is_thread()) << quick << " of " << needed;
      place.took(kQuick);
    }
  }
  // Only in a row.
  ASSERT_FALSE(place.is_thread());
  place.took(kSlow);
  for (int quick = 0; quick < 63; ++quick) place.took(kQuick);
  place.took(kSlow);
  for (int quick = 0; quick < 63; ++quick) place.took(kQuick);
  EXPECT_TRUE(place.is_thread());
  place.took(kQuick);
  EXPECT_FALSE(place.is_thread());
}

FunctionDataset numbers(std::uint64_t size, Blocking blocking, std::function<void()> on_read) {
  return {"numbers",
          {{"number", DType::kInt64, {}}},
          size,
          [on_read = std::move(on_read)](std::uint64_t index, Sample& out) {
            on_read();
            out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(index);
          },
          blocking};
}

void run_an_epoch(const Dataset& data, std::size_t batch_size) {
  Prefetcher feed(data, leat::gpu::open_host({}), {.batch_size = batch_size});
  for (Lease& batch : feed.epoch(0)) EXPECT_EQ(batch.size(), batch_size);
}

TEST(ReadPlace, APrefetcherReadsThere) {
  std::atomic<int> on_fibers = 0;
  std::atomic<int> on_threads = 0;
  const auto count = [&] { ++(leat::on_fiber() ? on_fibers : on_threads); };
  run_an_epoch(numbers(100, Blocking::kNever, count), 1);
  EXPECT_GE(on_fibers, 100) << "and some of the next epoch";
  EXPECT_EQ(on_threads, 0);

  on_fibers = 0;
  run_an_epoch(numbers(100, Blocking::kOften, count), 1);
  EXPECT_EQ(on_fibers, 0);
  EXPECT_GE(on_threads, 100);

  // However busy the machine, of so many batches some take less than a millisecond.
  on_threads = 0;
  run_an_epoch(numbers(10'000, Blocking::kSeldom, count), 1);
  EXPECT_GT(on_fibers, 0);
  EXPECT_GT(on_threads, 0) << "the first";
}

TEST(ReadPlace, OnAPlainThreadTheHostDevicesSchedulerServesThePrefetcherToo) {
  const auto device = leat::gpu::open_host({});
  std::atomic<int> reads = 0;
  const auto look = [&] {
    ++reads;
    EXPECT_EQ(&leat::current_scheduler("test"), device.backend()->scheduler());
  };
  const FunctionDataset data = numbers(100, Blocking::kNever, look);
  for (int prefetcher = 0; prefetcher < 2; ++prefetcher) {  // it outlives the first
    reads = 0;
    Prefetcher feed(data, device, {.batch_size = 10});
    for (Lease& batch : feed.epoch(0)) EXPECT_EQ(batch.size(), 10U);
    EXPECT_GE(reads, 100);
  }
}

TEST(ReadPlace, OnAFiberItIsTheFibersScheduler) {
  const auto device = leat::gpu::open_host({});
  leat::run([&] {
    leat::SchedulerCore* const mine = &leat::current_scheduler("test");
    const FunctionDataset data =
        numbers(10, Blocking::kNever, [&] { EXPECT_EQ(&leat::current_scheduler("test"), mine); });
    run_an_epoch(data, 10);
    Prefetcher feed(data, device, {.batch_size = 10});
    for (Lease& batch : feed.epoch(0)) EXPECT_EQ(batch.size(), 10U);
  });
}

// Notes what it hears, in its order; one reader.
class Listening final : public Dataset {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "listening"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return 20; }
  void read(std::uint64_t index, Sample& out) const override {
    const std::scoped_lock lock(mutex_);
    heard_.emplace_back('r', index);
    out.as<std::int64_t>(0)[0] = 0;
  }
  void will_read(std::uint64_t index, std::uint64_t /*seed*/,
                 std::uint64_t /*epoch*/) const noexcept override {
    const std::scoped_lock lock(mutex_);
    heard_.emplace_back('w', index);
  }
  [[nodiscard]] std::vector<std::pair<char, std::uint64_t>> heard() const {
    const std::scoped_lock lock(mutex_);
    return heard_;
  }

 private:
  std::vector<Field> fields_{{"nothing", DType::kInt64, {}}};
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<char, std::uint64_t>> heard_;
};

TEST(WillRead, ComesTwoSamplesAheadWithinABatchAlsoThroughAMap) {
  const Listening data;
  const Map mapped(data, [](Sample&) {});
  {
    Prefetcher feed(mapped, leat::gpu::open_host({}),
                    {.batch_size = 20, .workers = 1, .order = Order::kSequential});
    for (Lease& batch : feed.epoch(0)) EXPECT_EQ(batch.size(), 20U);
  }
  std::vector<std::pair<char, std::uint64_t>> expected;
  for (std::uint64_t i = 0; i < 20; ++i) {
    if (i + 2 < 20) expected.emplace_back('w', i + 2);
    expected.emplace_back('r', i);
  }
  auto heard = data.heard();
  ASSERT_GE(heard.size(), expected.size());
  heard.resize(expected.size());  // the next epoch is read ahead
  EXPECT_EQ(heard, expected);
}

}  // namespace read_place_test
