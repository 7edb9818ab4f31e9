// What readers announce, and when: ahead of cold data, and never of hot data.
#include "leat/feeder/stages/announcer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/feeder/map.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/fixed_records.h"
#include "leat/feeder/stages/fill_meter.h"
#include "leat/gpu/host_model.h"
#include "tests/support/cold_file.h"
#include "tests/support/run.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/texts.h"

namespace announcer_test {

using namespace leat::feeder;
using leat::support::expect_contains;
using leat::support::expect_throws;
using leat::support::in_virtual_time;

struct RecordingOptions {
  std::uint64_t size = 0;
  std::uint64_t bytes = 1;  // that each announcement tells
  Blocking blocking = Blocking::kSeldom;
  std::uint64_t bad = ~std::uint64_t{0};  // the sample that cannot be read
};

// Notes what it hears, in its order. A sample is its number, and a length of 1 to 3 for packing.
class Recording final : public Dataset {
 public:
  struct Heard {
    char what;  // 'a', announced; 'r', read
    std::uint64_t index;
    std::uint64_t epoch;
    bool operator==(const Heard&) const = default;
  };
  static constexpr std::uint64_t kSeed = 5;

  explicit Recording(RecordingOptions options, bool is_variable = false)
      : options_(options), fields_{{"number", DType::kInt64, {3}, true}} {
    if (!is_variable) fields_ = {{"number", DType::kInt64, {}}};
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "recording"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return options_.size; }
  [[nodiscard]] Blocking blocking() const noexcept override { return options_.blocking; }
  void read(std::uint64_t index, Sample& out) const override {
    note('r', index, out.epoch());
    if (index == options_.bad) throw leat::Error("leat: it is bad; leave it out");
    if (fields_[0].variable_length) out.set_length(0, 1 + index % 3);
    for (std::int64_t& value : out.as<std::int64_t>(0)) value = static_cast<std::int64_t>(index);
  }
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override {
    EXPECT_EQ(seed, kSeed);
    note('a', index, epoch);
    return options_.bytes;
  }
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index,
                                                  std::size_t /*field*/) const override {
    return 1 + index % 3;
  }
  [[nodiscard]] std::vector<Heard> heard() const {
    const std::scoped_lock lock(mutex_);
    return heard_;
  }

 private:
  void note(char what, std::uint64_t index, std::uint64_t epoch) const {
    const std::scoped_lock lock(mutex_);
    heard_.push_back({what, index, epoch});
  }

  const RecordingOptions options_;
  std::vector<Field> fields_;
  mutable std::mutex mutex_;
  mutable std::vector<Heard> heard_;
};

std::vector<std::uint64_t> numbers_to(std::uint64_t count) {
  std::vector<std::uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  return numbers;
}

TEST(Announcer, HasRoomFor64SamplesOr2MiBAndFor8OfUpTo2MiBAndForOneOfAnySize) {
  constexpr std::uint64_t kKiB = 1024;
  const std::vector<std::uint64_t> samples = numbers_to(100);
  for (const auto& [bytes, ahead] : {std::pair<std::uint64_t, std::size_t>{0, 64},
                                     {16 * kKiB, 64},
                                     {64 * kKiB, 32},
                                     {100 * kKiB, 21},
                                     {256 * kKiB, 8},
                                     {2048 * kKiB, 8},
                                     {4096 * kKiB, 4},
                                     {1 << 30, 1}}) {
    const Recording data({.size = 100, .bytes = bytes});
    Announcer announcer(data, Recording::kSeed);
    std::size_t next = 0;
    for (std::size_t i = 0; i < 100; ++i) {
      next = announcer.announce(samples, next, 0);
      ASSERT_EQ(next, std::min<std::size_t>(i + ahead, 100)) << bytes << " bytes, sample " << i;
      announcer.pop();
    }
    EXPECT_EQ(announcer.bytes(), 0U);
  }
}

// What one reader of batches of `batch` is heard to do with the first batches, as many as there are
// slots: it announces up to 64 samples, but not beyond the batch that follows.
std::vector<Recording::Heard> expected(std::uint64_t size, std::uint64_t batch) {
  std::vector<Recording::Heard> all;
  std::uint64_t announced = 0;
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t end = std::min({i + 64, (i / batch + 2) * batch, size});
    for (; announced < end; ++announced) all.push_back({'a', announced, 0});
    all.push_back({'r', i, 0});
  }
  return all;
}

std::vector<Recording::Heard> heard_of(const RecordingOptions& recording,
                                       const PrefetcherOptions& options) {
  const Recording data(recording, options.packing.has_value());
  const Map mapped(data, [](Sample&) {});
  in_virtual_time([&] {
    Prefetcher feed(mapped, leat::gpu::open_host({}), options);
    for (Lease& batch : feed.epoch(0)) EXPECT_GT(batch.size(), 0U);
  });
  return data.heard();
}

PrefetcherOptions options_of(std::size_t batch) {
  return {.batch_size = batch,
          .order = Order::kSequential,
          .seed = Recording::kSeed,
          .read_across_epochs = false};
}

TEST(Announcements, GoOnAcrossTheBorderOfABatchAlsoThroughAMap) {
  for (const std::size_t batch : {4U, 20U, 40U, 100U}) {
    SCOPED_TRACE(batch);
    EXPECT_EQ(heard_of({.size = 3 * batch}, options_of(batch)), expected(3 * batch, batch));
  }
}

// That announces nothing, and where the tuner or other readers may want the slot.
TEST(Announcements, EndWithTheBatchWhereNoSlotIsToSpare) {
  PrefetcherOptions tuned = options_of(40);
  tuned.autotune = Autotune{.max_workers = 4};
  PrefetcherOptions several = options_of(40);
  several.workers = 4;
  for (const auto& heard : {heard_of({.size = 120, .bytes = 0}, options_of(40)),
                            heard_of({.size = 120}, tuned), heard_of({.size = 120}, several)}) {
    ASSERT_EQ(heard.size(), 240U);
    for (std::size_t i = 0; i < heard.size(); i += 80) {
      for (std::size_t j = i; j < i + 80; ++j) {
        EXPECT_EQ(heard[j].index / 40, heard[i].index / 40);
      }
    }
  }
}

TEST(Announcements, AreOfEachPieceThatIsPacked) {
  PrefetcherOptions options = options_of(7);
  options.packing = Packing{};
  const auto heard = heard_of({.size = 20}, options);
  std::vector<std::uint64_t> announced;
  std::vector<std::uint64_t> read;
  for (const Recording::Heard& one : heard) {
    (one.what == 'a' ? announced : read).push_back(one.index);
    EXPECT_LE(read.size(), announced.size());
  }
  EXPECT_GT(read.size(), 20U);  // samples are cut
  EXPECT_EQ(announced, read);
}

TEST(Announcements, AreReadAlsoBehindASampleThatFails) {
  PrefetcherOptions options = options_of(10);
  options.read_failures.count = 1;
  EXPECT_EQ(heard_of({.size = 30, .bad = 12}, options), expected(30, 10));
  options.read_failures.count = 0;
  expect_throws<leat::Error>([&] { heard_of({.size = 30, .bad = 2}, options); }, {"it is bad"});
}

std::size_t announced_in(const Recording& data, std::uint64_t epoch) {
  const auto heard = data.heard();
  return static_cast<std::size_t>(std::ranges::count_if(
      heard, [&](const auto& one) { return one.what == 'a' && one.epoch == epoch; }));
}

TEST(Announcements, OfHotDataEnd) {
  const Recording data({.size = 100});
  const Recording never({.size = 100, .blocking = Blocking::kNever});
  PrefetcherOptions options = options_of(10);
  options.read_across_epochs = true;
  for (const Recording* one : {&data, &never}) {
    Prefetcher feed(*one, leat::gpu::open_host({}), options);
    std::uint64_t epoch = 0;
    do {
      for (Lease& batch : feed.epoch(epoch)) EXPECT_EQ(batch.size(), 10U);
    } while (announced_in(*one, epoch++) > 0 && epoch < 20);
    EXPECT_LT(epoch, 20U) << "the data, which is in memory, stays cold";
  }
  EXPECT_GE(announced_in(data, 0), 10U);
  EXPECT_EQ(announced_in(never, 0), 0U);
}

constexpr std::size_t kRecord = 8192;

// `count` records, each of bytes of its own.
std::filesystem::path write_records(const std::filesystem::path& folder, std::size_t count) {
  std::filesystem::path path = folder / "records.bin";
  std::ofstream out(path, std::ios::binary);
  for (std::size_t i = 0; i < count; ++i) {
    out << std::string(kRecord, static_cast<char>('a' + i % 26));
  }
  return path;
}

TEST(Announcements, OfColdRecordsAreWhatTheDiskFetchesAndNoPageIsWaitedForAlone) {
  constexpr std::size_t kRecords = 512;
  const leat::support::TemporaryDirectory folder;
  const std::filesystem::path path = write_records(folder.path(), kRecords);
  LEAT_MAKE_COLD(path);
  const FixedRecords data(path.string(),
                          {.fields = {{"letters", DType::kUint8, {std::int64_t{kRecord}}}}});
  Prefetcher feed(data, leat::gpu::open_host({}), {.batch_size = 32, .read_across_epochs = false});
  std::size_t samples = 0;
  for (Lease& batch : feed.epoch(0)) samples += batch.size();
  EXPECT_EQ(samples, kRecords);
  const Stats stats = feed.stats();
  constexpr double kBatches = kRecords / 32;
  EXPECT_GE(stats.cold_bytes * kBatches, 0.9 * kRecords * kRecord);
  // Without announcements, 1,024. Reads may overtake those of the first window, of 64 samples.
  EXPECT_LE(stats.major_faults * kBatches, 100);
  expect_contains(feed.report(), {"read from the disk ", " major faults a batch"});
}

// A dataset of a user's.
class OwnRecords final : public Dataset {
 public:
  explicit OwnRecords(const std::filesystem::path& path)
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OwnRecords() override { close(file_); }
  [[nodiscard]] std::string_view name() const noexcept override { return "own records"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return 64; }
  void read(std::uint64_t index, Sample& out) const override {
    const ssize_t got =
        pread(file_, out.bytes(0).data(), kBytes, static_cast<off_t>(index * kBytes));
    if (got != ssize_t{kBytes}) throw leat::Error("leat: a record is missing; write it again");
  }
  // [announce]
  [[nodiscard]] Blocking blocking() const noexcept override { return Blocking::kSeldom; }
  std::uint64_t announce(std::uint64_t index, std::uint64_t /*seed*/,
                         std::uint64_t /*epoch*/) const noexcept override {
    posix_fadvise(file_, static_cast<off_t>(index * kBytes), kBytes, POSIX_FADV_WILLNEED);
    return kBytes;
  }
  // [/announce]

 private:
  static constexpr std::size_t kBytes = kRecord;
  int file_;
  std::vector<Field> fields_{{"letters", DType::kUint8, {std::int64_t{kRecord}}}};
};

TEST(Announcements, OfAnOwnDatasetAreFetched) {
  const leat::support::TemporaryDirectory folder;
  const std::filesystem::path path = write_records(folder.path(), 64);
  LEAT_MAKE_COLD(path);
  const OwnRecords data(path);
  Prefetcher feed(data, leat::gpu::open_host({}), {.batch_size = 16, .read_across_epochs = false});
  for (Lease& batch : feed.epoch(0)) EXPECT_EQ(batch.size(), 16U);
  EXPECT_GE(feed.stats().cold_bytes, 16 * kRecord);
}

TEST(FillMeter, DataIsColdAtFirstHotAfterAHotBatchAndColdAgainOnceABatchIs) {
  const leat::support::TemporaryDirectory folder;
  const std::filesystem::path path = write_records(folder.path(), 64);
  FillMeter meter(Blocking::kSeldom, false);
  std::string bytes(64 * kRecord, ' ');
  const auto fill = [&] {
    meter.begin();
    std::ifstream(path, std::ios::binary).read(bytes.data(), 64 * kRecord);
    return meter.end();
  };
  const auto fills_until = [&](bool is_cold, bool evicts) {
    int fills = 0;
    for (; meter.is_cold() != is_cold && fills < 100; ++fills) {
      if (evicts) leat::support::make_cold(path);
      fill();
    }
    return fills;
  };
  EXPECT_TRUE(meter.is_cold());
  LEAT_MAKE_COLD(path);
  EXPECT_GE(fill().cold_bytes, 64 * kRecord);
  EXPECT_TRUE(meter.is_cold());
  for (const int needed : {1, 2, 4, 8}) {  // each disappointment doubles what is asked for
    EXPECT_EQ(fills_until(false, false), needed);
    EXPECT_EQ(fill().cold_bytes, 0U);
    EXPECT_LE(fills_until(true, true), 2);
  }
}

TEST(FillMeter, WhatNeverBlocksIsHotAndInVirtualTimeAllElseIsColdAndTakesNothing) {
  FillMeter never(Blocking::kNever, false);
  FillMeter planned(Blocking::kOften, true);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(never.is_cold());
    EXPECT_TRUE(planned.is_cold());
    never.begin();
    planned.begin();
    EXPECT_EQ(planned.end().cpu, leat::Duration::zero());
    EXPECT_EQ(never.end().cold_bytes, 0U);
  }
}

}  // namespace announcer_test
