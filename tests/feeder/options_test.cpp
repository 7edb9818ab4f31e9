// Options that cannot work are refused, and caps hold.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/function.h"
#include "leat/gpu/device.h"
#include "tests/feeder/prefetcher_fixture.h"

namespace leat::feeder {
namespace options_test {

using support::kPlaces;
using support::Numbers;
using support::place_title;

class Options : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, Options, testing::ValuesIn(kPlaces), place_title);

TEST_P(Options, SlotsBeyondACapAreRefusedAndTheSumNamed) {
  in_place([] {
    const Numbers data({.size = 1 << 20, .pattern_bytes = 1'000'000 - 8});
    const auto devices = open_devices(2);
    const auto expect_refused = [&](PrefetcherOptions options,
                                    std::initializer_list<std::string_view> parts) {
      options.batch_size = 8;  // 8 MB
      expect_throws<std::invalid_argument>([&] { Prefetcher(data, devices[0], options); }, parts);
    };
    expect_refused({.pinned_slots = 3, .max_pinned_bytes = 23'000'000},
                   {"3 pinned slots", "8.00 MB", "24.0 MB", "max_pinned_bytes", "23.0 MB"});
    expect_refused({.prefetch_depth = 3, .max_device_bytes = 23'000'000},
                   {"3 device slots", "24.0 MB", "max_device_bytes"});
    expect_refused({.pinned_slots = 2, .max_pinned_bytes = 10'000},
                   {"2 pinned slots of 8.00 MB", "16.0 MB", "max_pinned_bytes, 10.0 kB"});
    const Numbers small({.size = 100, .pattern_bytes = 8});
    const PrefetcherOptions huge = {// whose sum has no room in 64 bits
                                    .batch_size = std::size_t{1} << 57,
                                    .pinned_slots = 4,
                                    .last_batch = LastBatch::kPad};
    expect_throws<std::invalid_argument>([&] { Prefetcher(small, devices[0], huge); },
                                         {"4 pinned slots", "more than any memory has"});
    // Sums that look alike are told to the byte.
    const Numbers alike({.size = 64, .pattern_bytes = 992});
    expect_throws<std::invalid_argument>(
        [&] {
          Prefetcher(alike, devices[0],
                     {.batch_size = 25, .pinned_slots = 4, .max_pinned_bytes = 100'000});
        },
        {"4 pinned slots of 25088 bytes are 100352 bytes, more than max_pinned_bytes, 100000 "
         "bytes"});
    const Prefetcher fits(data, devices[0],
                          {.batch_size = 8,
                           .pinned_slots = 3,
                           .max_pinned_bytes = 24'010'000,
                           .max_device_bytes = 16'010'000});
    EXPECT_LE(devices[0].memory().pinned.used, 24'010'000U);
    const PrefetcherOptions for_both = {
        .batch_size = 8, .pinned_slots = 3, .max_pinned_bytes = 20'000'000};
    expect_throws<std::invalid_argument>(
        [&] { Prefetcher(data, devices, for_both); },
        {"3 pinned slots", "4.00 MB", "for each of 2 devices", "24.0 MB"});
  });
}

// What the checks take counts, in the cap and in the report.
TEST_P(Options, PinnedMemoryOfSlotChecksIsPartOfTheSum) {
  in_place([] {
    const Numbers data({.size = 64, .pattern_bytes = 1024 - 8});
    const gpu::Device device = gpu::open("host");
    PrefetcherOptions options = {.batch_size = 16,
                                 .pinned_slots = 4,
                                 .max_pinned_bytes = 9 * (256 + 16384),
                                 .check_slots = CheckSlots::kYes};
    const Prefetcher feed(data, device, options);
    EXPECT_EQ(device.memory().pinned.used, 9U * (256 + 16384));
    expect_contains(feed.report(), {"pinned memory 150 kB of at most 150 kB"});
    options.max_pinned_bytes -= 1;
    expect_throws<std::invalid_argument>([&] { Prefetcher(data, device, options); },
                                         {"4 pinned slots", "for check_slots", "max_pinned_bytes"});
  });
}

TEST_P(Options, PinnedMemoryIsTheDeclaredRingExactly) {
  in_place([] {
    NumbersFeed feed({.size = 64, .pattern_bytes = 1024 - 8},
                     {.batch_size = 16, .prefetch_depth = 3, .pinned_slots = 5});
    // 16 numbers are 128 bytes, 16 patterns 16256: 256 and 16384 with their alignment.
    EXPECT_EQ(feed.device.memory().pinned.used, 5U * (256 + 16384));
    EXPECT_EQ(feed.device.memory().device.used, 3U * (256 + 16384));
    EXPECT_EQ(epoch_of(feed, 0).size(), 4U);
    EXPECT_EQ(feed.device.memory().pinned.peak, 5U * (256 + 16384));
  });
}

// A prefetcher of 64 numbers on so many devices.
void expect_refused(PrefetcherOptions options, std::initializer_list<std::string_view> says,
                    std::size_t devices = 1) {
  options.batch_size = 4;
  const Numbers data({.size = 64});
  expect_throws<std::invalid_argument>([&] { Prefetcher(data, open_devices(devices), options); },
                                       says);
}

TEST_P(Options, ThoseThatCannotWorkAreRefusedAndNamed) {
  in_place([] {
    expect_throws<std::invalid_argument>([] { NumbersFeed({.size = 8}, {}); },
                                         {"batch_size", "at least 1"});
    expect_refused({.prefetch_depth = 0}, {"prefetch_depth is 0", "at least 1"});
    expect_refused({.max_leases = 0}, {"max_leases is 0", "at least 1"});
    expect_refused({.workers = 0}, {"workers is 0", "at least 1"});
    for (const std::size_t many : {std::size_t{4097}, std::size_t{1} << 32, ~std::size_t{0}}) {
      expect_refused({.prefetch_depth = many}, {"prefetch_depth", "at most 4096"});
      expect_refused({.max_leases = many}, {"max_leases", "at most 4096"});
      expect_refused({.workers = many}, {"workers", "at most 4096"});
      expect_refused({.pinned_slots = many}, {"pinned_slots", "at most 4096"});
    }
    expect_refused({.order = Order{77}}, {"order is 77, which is none of its values"});
    expect_refused({.last_batch = LastBatch{4}}, {"last_batch is 4"});
    expect_refused({.delivery = Delivery{2}}, {"delivery is 2"});
    expect_refused({.sharing = Sharing{2}}, {"sharing is 2"});
    expect_refused({.check_slots = CheckSlots{3}}, {"check_slots is 3"});
    expect_refused({.pad_to = PadTo{2}}, {"pad_to is 2, which is none of its values"});
    expect_refused({.packing = Packing{}, .pad_to = PadTo::kBatch},
                   {"packing and a pad_to of batch"});
    for (const double rate : {-0.1, 1.1, std::nan("")}) {
      expect_refused({.read_failures = {.rate = rate}}, {"read_failures.rate", "from 0 to 1"});
      expect_refused({.transform_failures = {.rate = rate}}, {"transform_failures.rate"});
    }
  });
}

TEST_P(Options, AutotuneThatCannotWorkIsRefused) {
  in_place([] {
    const auto refused = [](const Autotune& tune, std::string_view says) {
      expect_refused({.prefetch_depth = 3, .workers = 3, .autotune = tune}, {says});
    };
    refused({.max_workers = 0}, "autotune.max_workers is 0");
    refused({.max_workers = 5000}, "autotune.max_workers is 5000");
    refused({.max_workers = 2}, "autotune.max_workers is 2, less than workers, 3");
    refused({.max_prefetch_depth = 0}, "autotune.max_prefetch_depth is 0");
    refused({.max_prefetch_depth = 2},
            "autotune.max_prefetch_depth is 2, less than prefetch_depth, 3");
    refused({.every = 0}, "autotune.every is 0");
    expect_refused({.autotune = Autotune{}, .sample_every = 0}, {"sample_every is 0"});
  });
}

TEST_P(Options, RanksThatDoNotFitAreRefused) {
  in_place([] {
    const auto refused = [](const PrefetcherOptions& options, std::string_view says) {
      expect_refused(options, {says}, 2);
    };
    refused({.rank = 1}, "world_size");
    refused({.rank = 1, .world_size = 2}, "ranks 1 to 2");
    refused({.rank = 0, .world_size = 1}, "ranks 0 to 1");
    refused({.rank = ~std::size_t{0}, .world_size = 4}, "ranks");
    refused({.sharing = Sharing::kDynamic, .world_size = 4}, "within one process only");
    expect_refused({.sharing = Sharing::kDynamic, .world_size = 4},
                   {"1 device is given: leave world_size at 0; it is 4"});
    expect_refused({}, {"at least one device"}, 0);
  });
}

TEST_P(Options, FieldsThatCannotWorkAreRefused) {
  in_place([] {
    const auto refused = [](std::vector<Field> fields, std::string_view says) {
      expect_refused(
          {.device_transform = {.fields = std::move(fields), .function = [](const auto&...) {}}},
          {says});
    };
    const Field y = {"y", DType::kInt8, {}};
    refused({}, "both fields and a function");
    expect_refused({.device_transform = {.fields = {y}}}, {"both fields and a function"});
    refused({y, y}, "two fields \"y\"");
    refused({{"y", DType::kInt8, {-1}}}, "leat: device_transform: field \"y\" has an extent of -1");
    const FunctionDataset nothing("nothing", {}, 1, [](std::uint64_t, Sample&) {});
    expect_throws<std::invalid_argument>(
        [&] { Prefetcher(nothing, gpu::open("host"), {.batch_size = 1}); }, {"has no fields"});
  });
}

}  // namespace options_test
}  // namespace leat::feeder
