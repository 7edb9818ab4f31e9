// check_slots: readers that write too late, write elsewhere or do not write are found and told, and
// others are not.
#include "leat/feeder/slots/fill_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/function.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "tests/support/run.h"
#include "tests/support/texts.h"

namespace leat::feeder {
namespace fill_checks_test {

using namespace std::chrono_literals;
using support::expect_contains;

// Into memory that is not one's own any more: a race, which is what is planted here, and which
// ThreadSanitizer need not find.
__attribute__((noinline, no_sanitize("thread"))) void write_wrongly(std::int64_t* to,
                                                                    std::int64_t value) {
  *to = value;
}
const std::int64_t kPoisonedNumber = [] {
  std::int64_t number = 0;
  std::memset(&number, std::to_integer<int>(kPoison), sizeof number);
  return number;
}();

// What a loop ends with whose samples `read` reads, four to a batch. What it leaves alone is as it
// was before.
std::string error_of_reads(const std::function<void(std::uint64_t, Sample&)>& read,
                           const PrefetcherOptions& given = {}) {
  std::string error = "none";
  support::in_virtual_time([&] {
    const FunctionDataset data("numbers", {{.name = "number", .dtype = DType::kInt64, .shape = {}}},
                               40, read);
    PrefetcherOptions options = given;
    options.batch_size = 4;
    options.order = Order::kSequential;
    options.check_slots = CheckSlots::kYes;
    try {
      Prefetcher feed(data, gpu::open_host({.h2d_bandwidth = 1e9}), options);
      for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
        for (Lease& batch : feed.epoch(epoch)) {
          batch.await();
          sleep_for(1us);
        }
      }
    } catch (const Error& e) {
      error = e.what();
    }
  });
  return error;
}

std::int64_t* number_of(Sample& out) { return out.as<std::int64_t>(0).data(); }

TEST(ReadersChecked, ASampleThatIsNotWrittenIsFound) {
  expect_contains(
      error_of_reads([](std::uint64_t sample, Sample& out) {
        if (sample != 22) *number_of(out) = static_cast<std::int64_t>(sample);
      }),
      {"check_slots: reader: a read of sample 22 has left a byte unwritten", "pinned slot ",
       " of host:0", "its byte 16, in row 2 of tensor \"number\"", "batch 5 of epoch 0"});
  // Its last byte.
  expect_contains(error_of_reads([](std::uint64_t sample, Sample& out) {
                    const auto number = static_cast<std::int64_t>(sample);
                    std::memcpy(number_of(out), &number, sample == 9 ? 7 : 8);
                  }),
                  {"sample 9 has left a byte unwritten", "its byte 15, in row 1"});
}

TEST(ReadersChecked, WhatLooksLikePoisonMayBeWritten) {
  EXPECT_EQ(error_of_reads([](std::uint64_t, Sample& out) { *number_of(out) = kPoisonedNumber; }),
            "none");
}

TEST(ReadersChecked, AWriteIntoTheRowBeforeOrBehindIsFound) {
  for (const std::ptrdiff_t row : {-1, 1}) {
    expect_contains(
        error_of_reads([&](std::uint64_t sample, Sample& out) {
          *number_of(out) = static_cast<std::int64_t>(sample);
          if (sample == 22) write_wrongly(number_of(out) + row, -1);
        }),
        {"a read of sample 22 has written outside its row",
         row < 0 ? "its byte 8, in row 1" : "its byte 24, in row 3", "batch 5 of epoch 0"});
  }
  // Behind the last row.
  expect_contains(error_of_reads([&](std::uint64_t sample, Sample& out) {
                    *number_of(out) = static_cast<std::int64_t>(sample);
                    if (sample == 23) write_wrongly(number_of(out) + 1, -1);
                  }),
                  {"a read of sample 23 has written outside its row", "its byte 32"});
  // Far away.
  expect_contains(error_of_reads([&](std::uint64_t sample, Sample& out) {
                    *number_of(out) = static_cast<std::int64_t>(sample);
                    if (sample == 23) write_wrongly(number_of(out) - 3, -1);
                  }),
                  {"a read has written into another row", "its byte 0, in row 0"});
}

// By 0.5 us, or by 5 us: before the copy, while it runs, or into another batch.
TEST(ReadersChecked, AWriteAfterTheReadIsFound) {
  for (const Duration late : {1ns, 20ns, 500ns, 5000ns}) {
    const std::string error = error_of_reads(
        [&](std::uint64_t sample, Sample& out) {
          *number_of(out) = static_cast<std::int64_t>(sample);
          if (sample != 22) return;
          go([number = number_of(out), late] {
            sleep_for(late);
            for (int i = 0; i < 1000; ++i) {
              write_wrongly(number, -1);
              sleep_for(1ns);
            }
          });
        },
        {.workers = 2});
    expect_contains(error, {"check_slots: reader: a read has written", "its byte 16, in row 2"});
  }
}

// Not by a reader, which is given other memory: by anybody, into the slot itself.
TEST(ReadersChecked, AWriteIntoTheSlotUntilItIsCopiedIsFound) {
  const gpu::Device device = gpu::open("host");
  const FunctionDataset data("numbers", {{.name = "number", .dtype = DType::kInt64, .shape = {}}},
                             40, [](std::uint64_t sample, Sample& out) {
                               *number_of(out) = static_cast<std::int64_t>(sample);
                             });
  const BatchLayout layout(data.name(), data.fields(), {}, 4);
  const gpu::PinnedBuffer memory(device, layout.staged_bytes());
  const std::span numbers(reinterpret_cast<std::int64_t*>(memory.span().data()), 4);
  PinnedSlot slot(device, memory.span(), layout, 0, 3);
  FillChecks checks(device, layout);
  // Fills the slot with two samples, of which the first is 20.
  const auto fill = [&](std::int64_t first) {
    checks.fill(slot, data, [&](const Dataset& source) {
      Scratch scratch;
      std::vector<std::size_t> lengths(1);
      for (std::size_t row = 0; row < 2; ++row) {
        const std::span<std::byte> room = std::as_writable_bytes(numbers.subspan(row, 1));
        Sample out(source.fields(), {&room, 1}, lengths, 0, 0, Random(0, 0, row), scratch);
        source.read(20 + row, out);
        numbers[0] = first;
      }
      slot.batch = {.index = 5, .samples = 2, .rows = 2};
    });
  };
  const auto error_of = [](const auto& act) -> std::string {
    try {
      act();
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(error_of([&] { fill(20); }), "none");
  EXPECT_EQ(error_of([&] { checks.expect_kept(); }), "none");
  write_wrongly(&numbers[1], -1);
  expect_contains(error_of([&] { checks.expect_kept(); }),
                  {"check_slots: reader: a read has written after its batch was filled",
                   "pinned slot 3 of host:0", "its byte 8, in row 1 of tensor \"number\"",
                   "batch 5 of epoch 0"});
  // Before the slot is filled.
  expect_contains(error_of([&] { fill(-1); }),
                  {"a read has written into another row", "its byte 0, in row 0"});
}

// A wrong read is told, and not the failure of a later one.
TEST(ReadersChecked, WhatIsFoundFirstIsTold) {
  expect_contains(error_of_reads([](std::uint64_t sample, Sample& out) {
                    if (sample == 23) throw std::range_error("torn");
                    if (sample != 22) *number_of(out) = static_cast<std::int64_t>(sample);
                  }),
                  {"sample 22 has left a byte unwritten"});
}

// The next sample comes into the row of one that has failed.
TEST(ReadersChecked, SamplesThatFailMayHaveWritten) {
  EXPECT_EQ(error_of_reads(
                [](std::uint64_t sample, Sample& out) {
                  *number_of(out) = static_cast<std::int64_t>(sample);
                  if (sample % 4 == 3) throw std::range_error("torn");
                },
                {.read_failures = {.rate = 1}}),
            "none");
}

// What a check finds is no failure of a sample: no budget covers it.
TEST(ReadersChecked, AWrongReadIsNotSetAside) {
  expect_contains(error_of_reads(
                      [](std::uint64_t sample, Sample& out) {
                        *number_of(out) = static_cast<std::int64_t>(sample);
                        if (sample == 22) write_wrongly(number_of(out) + 1, -1);
                      },
                      {.read_failures = {.rate = 1}}),
                  {"a read of sample 22 has written outside its row"});
}

// Lengths, offsets, pieces and padding are the feeder's own writing.
TEST(ReadersChecked, SamplesOfVariableLengthPaddedOrPackedAreAsRead) {
  for (const bool packed : {true, false}) {
    for (const LastBatch last : {LastBatch::kPartial, LastBatch::kPad}) {
      for (const bool is_lazy : {true, false}) {
        support::in_virtual_time([&] {
          class Rows final : public Dataset {
           public:
            explicit Rows(bool is_lazy) : is_lazy_(is_lazy) {}
            std::string_view name() const noexcept override { return "rows"; }
            std::span<const Field> fields() const noexcept override { return fields_; }
            std::uint64_t size() const noexcept override { return 41; }
            std::optional<std::size_t> length(std::uint64_t sample, std::size_t) const override {
              return sample % 7;
            }
            void read(std::uint64_t sample, Sample& out) const override {
              out.set_length(0, sample % 7);
              const auto row = out.as<std::int16_t>(0).first(sample % 7);
              if (!is_lazy_ || sample != 20) std::ranges::fill(row, std::int16_t{3});
              out.as<std::uint8_t>(1)[0] = 0xDB;
            }

           private:
            const bool is_lazy_;
            std::vector<Field> fields_{
                {.name = "row", .dtype = DType::kInt16, .shape = {7}, .variable_length = true},
                {.name = "label", .dtype = DType::kUint8, .shape = {}}};
          };
          const Rows data(is_lazy);
          PrefetcherOptions options = {.batch_size = 12,
                                       .workers = 2,
                                       .last_batch = last,
                                       .check_slots = CheckSlots::kReadOnly};
          if (packed) options.packing = Packing{};
          std::string error = "none";
          try {
            Prefetcher feed(data, gpu::open("host"), options);
            for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
              for (Lease& batch : feed.epoch(epoch)) batch.await();
            }
          } catch (const Error& e) {
            error = e.what();
          }
          if (is_lazy) {
            expect_contains(error, {"sample 20 has left a byte unwritten", "tensor \"row\""});
          } else {
            EXPECT_EQ(error, "none");
          }
        });
      }
    }
  }
}

}  // namespace fill_checks_test
}  // namespace leat::feeder
