// check_slots: planted violations are found and told, and without one nothing is.
#include "leat/feeder/slots/slot_checks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"

namespace leat::feeder {
namespace slot_checks_test {

using namespace std::chrono_literals;
using support::kPlaces;
using support::launch_check;
using support::Numbers;
using support::place_title;

// Of a slot that is not one's own any more: a race, which is what is planted here, and which
// ThreadSanitizer need not find.
__attribute__((noinline, no_sanitize("thread"))) void write_wrongly(std::int64_t* to,
                                                                    std::int64_t value) {
  *to = value;
}
__attribute__((noinline, no_sanitize("thread"))) std::int64_t read_wrongly(
    const std::int64_t* from) {
  return *from;
}
const std::int64_t kPoisonedNumber = [] {
  std::int64_t number = 0;
  std::memset(&number, std::to_integer<int>(kPoison), sizeof number);
  return number;
}();

class SlotsChecked : public PrefetcherTest {
 protected:
  // What a loop over three epochs ends with, in which `misuse` is called with batch 5 of the first
  // one, its stream, and the address of its numbers.
  static std::string error_of(
      CheckSlots checks,
      const std::function<void(Lease&, const gpu::Stream&, std::int64_t*)>& misuse) {
    std::string error = "none";
    in_place([&] {
      NumbersFeed feed({.size = 64}, {.batch_size = 4, .check_slots = checks},
                       {.h2d_bandwidth = 1e9, .d2h_bandwidth = 1e9});
      try {
        for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
          for (Lease& batch : feed.epoch(epoch, feed.stream)) {
            if (epoch == 0 && batch.index() == 5) {
              misuse(batch, feed.stream, batch["number"].data<std::int64_t>());
            }
          }
        }
      } catch (const Error& e) {
        error = e.what();
      }
      feed.stream.sync();
    });
    return error;
  }
};
INSTANTIATE_TEST_SUITE_P(Places, SlotsChecked, testing::ValuesIn(kPlaces), place_title);

// Where a violation can be planted at a moment that is known.
class SlotsCheckedInVirtualTime : public SlotsChecked {};
INSTANTIATE_TEST_SUITE_P(Places, SlotsCheckedInVirtualTime,
                         testing::Values(support::Place::kRunOf1Worker,
                                         support::Place::kRunOf2Workers),
                         place_title);

TEST_P(SlotsChecked, ALoopWithoutViolationsRunsAsWithoutThem) {
  in_place([] {
    for (const CheckSlots checks : {CheckSlots::kYes, CheckSlots::kReadOnly}) {
      const Numbers data({.size = 43, .on_read = uneven_reads()});
      const gpu::Device device = gpu::open("host");
      const gpu::Stream stream(device);
      const gpu::Stream other(device);
      const PrefetcherOptions options = {
          .batch_size = 4, .max_leases = 2, .workers = 2, .check_slots = checks};
      Prefetcher feed(data, device, options);
      for (int round = 0; round < 3; ++round) {
        for (Lease& batch : feed.epoch(0, stream)) {  // left early: batches are thrown away
          launch_check(stream, batch, support::expected_samples(data, options, batch));
          launch_check(other, batch, support::expected_samples(data, options, batch));
          if (batch.index() == 6) break;
        }
        EXPECT_EQ(epoch_of(feed, 1), expected_epoch(data, options, 1));
      }
      stream.sync();
      other.sync();
    }
  });
}

TEST_P(SlotsCheckedInVirtualTime, AWriteAfterTheReleaseIsFoundAndSlotBatchAndStreamNamed) {
  std::string stream_name;
  const std::string error = error_of(
      CheckSlots::kYes, [&](Lease& batch, const gpu::Stream& stream, std::int64_t* numbers) {
        char text[40];
        std::snprintf(text, sizeof text, "%#llx",
                      static_cast<unsigned long long>(stream.ref().handle()));
        stream_name = text;
        batch.release();
        // Into the poison or into the next batch: either is found. (What is overwritten by the next
        // copy, after the last look, is not, and harms nobody.)
        for (int i = 0; i < 1000; ++i) {
          stream.launch_host([numbers] { write_wrongly(numbers + 2, 1'000'000); });
          stream.sync();
          sleep_for(10ns);
        }
      });
  expect_contains(error, {"check_slots", "device slot ", "host:0", "batch 5 of epoch 0",
                          "row 2 of tensor \"number\"", stream_name.c_str()});
}

TEST_P(SlotsCheckedInVirtualTime, AReadAfterTheReleaseSeesPoison) {
  std::atomic<int> poisoned{0};
  const std::string error = error_of(
      CheckSlots::kYes, [&](Lease& batch, const gpu::Stream& stream, std::int64_t* numbers) {
        // A second stream, which was not bound, is late.
        const gpu::Stream unbound(stream.device());
        batch.release();
        stream.sync();
        for (int i = 0; i < 1'000'000 && poisoned == 0; ++i) {
          unbound.launch_host([&, numbers] {
            if (read_wrongly(numbers) == kPoisonedNumber) ++poisoned;
          });
          unbound.sync();
          sleep_for(1ns);
        }
      });
  EXPECT_GT(poisoned, 0);
  EXPECT_EQ(error, "none");
}

TEST_P(SlotsChecked, AKernelThatChangesItsBatchIsFoundWhereThatIsForbidden) {
  const auto write = [](Lease& batch, const gpu::Stream& stream, std::int64_t* numbers) {
    EXPECT_EQ(batch.index(), 5U);
    stream.launch_host([numbers] { numbers[1] = -1; });
  };
  EXPECT_EQ(error_of(CheckSlots::kYes, write), "none") << "a batch is its consumer's";
  expect_contains(error_of(CheckSlots::kReadOnly, write),
                  {"check_slots", "changed while it was leased", "row 1 of tensor \"number\"",
                   "batch 5 of epoch 0", "stream 0x"});
}

TEST_P(SlotsChecked, AWriteBehindTheRowsOfABatchIsFound) {
  for (const CheckSlots checks : {CheckSlots::kYes, CheckSlots::kReadOnly}) {
    expect_contains(error_of(checks,
                             [](Lease&, const gpu::Stream& stream, std::int64_t* numbers) {
                               stream.launch_host([numbers] { numbers[4] = -1; });
                             }),
                    {"check_slots", "device slot ", "was written to behind the rows of its batch",
                     "its byte 32", "batch 5 of epoch 0", "stream 0x"});
  }
}

// Written to between its copy and its hand-out, as a consumer of the batch before might.
TEST_P(SlotsCheckedInVirtualTime, WhatIsNotWhatWasCopiedIsNotHandedOut) {
  in_place([] {
    NumbersFeed feed({.size = 64},
                     {.batch_size = 4, .prefetch_depth = 1, .check_slots = CheckSlots::kYes});
    std::int64_t* number = nullptr;
    {
      Lease batch = *feed.next();
      number = batch["number"].data<std::int64_t>();
    }
    // The only slot: its next batch is there when the numbers are no poison any more.
    const gpu::Stream stream(feed.device);
    std::atomic<bool> written{false};
    for (int i = 0; i < 1'000'000 && !written; ++i) {
      stream.launch_host([&] {
        if (read_wrongly(number) == kPoisonedNumber) return;
        write_wrongly(number + 3, 77'777);
        written = true;
      });
      stream.sync();
      sleep_for(1ns);
    }
    ASSERT_TRUE(written);
    expect_throws<Error>([&] { static_cast<void>(feed.next()); },
                         {"device slot 0", "does not hold what was copied", "row 3",
                          "batch 1 of epoch 0", "batch 0 of epoch 0"});
    EXPECT_THROW(static_cast<void>(feed.next()), Error);
  });
}

}  // namespace slot_checks_test
}  // namespace leat::feeder
