// What a step allocates on the heap: nothing, once the prefetcher is warm. A program of its own,
// because it replaces the global operator new.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/feeder/loop_meter.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/receipt.h"
#include "leat/feeder/sources/function.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "tests/support/backends.h"
#include "tests/support/counting_new.h"
#include "tests/support/numbers.h"

namespace leat::feeder {
namespace allocations_test {

using gpu::Device;
using gpu::Stream;
using support::allocations_of;
using support::backend_title;
using support::Numbers;
using support::test_backends;

class FeederAllocations : public support::BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, FeederAllocations, testing::ValuesIn(test_backends()),
                         backend_title);

constexpr std::uint64_t kWarm = 40;  // batches
constexpr std::uint64_t kCounted =
    20;  // each of the thirteen times; more than any sample_every here

// Within an epoch of 1000 batches: what comes between two epochs is not one of the steps.
std::size_t allocations_of_steps(Prefetcher& feed, const Stream& stream) {
  Epoch epoch = feed.epoch(0, stream);
  auto batch = epoch.begin();
  for (std::uint64_t i = 0; i < kWarm; ++i) ++batch;
  const std::size_t allocations = allocations_of([&] {
    for (std::uint64_t i = 0; i < kCounted; ++i) {
      static_cast<void>((*batch)["number"].data<std::int64_t>());
      ++batch;
    }
  });
  EXPECT_TRUE(batch != epoch.end());
  stream.sync();
  return allocations;
}

TEST_P(FeederAllocations, OfSteps) {
  with_device([](const Device& device) {
    const Numbers data({.size = 8 * 1000, .pattern_bytes = 100});
    const Stream stream(device);
    for (const std::size_t workers : {1U, 3U}) {
      for (const std::size_t sample_every : {0U, 2U, 16U}) {
        Prefetcher feed(data, device,
                        {.batch_size = 8, .workers = workers, .sample_every = sample_every});
        EXPECT_EQ(allocations_of_steps(feed, stream), 0U)
            << workers << " workers, one step in " << sample_every << " sampled";
      }
    }
  });
}

TEST_P(FeederAllocations, OfStepsWithEverythingOn) {
  with_device([](const Device& device) {
    const FunctionDataset data("ragged",
                               {{"number", DType::kInt64, {}}, {"ids", DType::kInt64, {8}, true}},
                               8 * 1000, [](std::uint64_t sample, Sample& out) {
                                 out.as<std::int64_t>(0)[0] = 1;
                                 out.set_length(1, sample % 9);
                               });
    const Stream stream(device);
    const DeviceTransform duplicate = {
        .fields = {{"twin", DType::kInt64, {}}},
        .function = [](const TensorSet& in, const TensorSet& out, const gpu::StreamRef& on) {
          gpu::copy_async(on, gpu::DeviceSpan(out["twin"].raw(), out["twin"].bytes()),
                          gpu::DeviceSpan(in["number"].raw(), in["number"].bytes()));
        }};
    Prefetcher feed(data, device,
                    {.batch_size = 8,
                     .prefetch_depth = 3,
                     .max_leases = 2,
                     .workers = 2,
                     .last_batch = LastBatch::kPad,
                     .delivery = Delivery::kAsCompleted,
                     .device_transform = duplicate,
                     .copy_chunk_bytes = 256,
                     .pad_to = PadTo::kBatch});
    EXPECT_EQ(allocations_of_steps(feed, stream), 0U);
  });
}

// A loop that waits in slices for the batch, and for its copy.
TEST_P(FeederAllocations, OfStepsThatTimeOut) {
  with_device([](const Device& device) {
    const Numbers data({.size = 8 * 1000, .pattern_bytes = 100});
    const Stream stream(device);
    for (const std::size_t max_leases : {1U, 3U}) {
      Prefetcher feed(data, device, {.batch_size = 8, .max_leases = max_leases, .workers = 2});
      feed.start(0);
      std::optional<Lease> batch;
      const auto take = [&](std::uint64_t count) {
        for (std::uint64_t taken = 0; taken < count;) {
          if (feed.next_until(batch, now(), stream) != ChannelStatus::ok) continue;
          while (!batch->await_until(now())) yield();
          ++taken;
        }
      };
      take(kWarm);
      EXPECT_EQ(allocations_of([&] { take(kCounted); }), 0U) << max_leases << " leases";
      batch.reset();
      stream.sync();
    }
  });
}

TEST_P(FeederAllocations, OfBatchesReceived) {
  with_device([](const Device& device) {
    const Numbers data({.size = 8 * 1000, .pattern_bytes = 100});
    const Stream stream(device);
    for (const std::size_t max_leases : {1U, 2U}) {
      Prefetcher feed(data, device, {.batch_size = 8, .max_leases = max_leases, .workers = 2});
      const Receiver<Lease> batches = feed.receiver(0, stream);
      const Channel<int> never(0);
      const auto receive = [&](std::uint64_t count) {
        for (std::uint64_t received = 0; received < count;) {
          select(on_recv(batches,
                         [&](std::optional<Lease> batch) {
                           static_cast<void>((*batch)["number"].data<std::int64_t>());
                           ++received;
                         }),
                 on_recv(never));
        }
      };
      receive(kWarm);
      EXPECT_EQ(allocations_of([&] { receive(kCounted); }), 0U) << max_leases << " leases";
      stream.sync();
    }
  });
}

TEST_P(FeederAllocations, OfMeteredSteps) {
  with_device([](const Device& device) {
    const Stream stream(device);
    LoopMeter meter({.sample_every = 2});
    const auto steps = [&] {
      for (std::uint64_t i = 0; i < kWarm; ++i) {
        meter.asks(stream);
        meter.got();
      }
      stream.sync();
    };
    steps();
    EXPECT_EQ(allocations_of(steps), 0U);
    EXPECT_GE(meter.figures().sampled, 90U);
  });
}

// Committed some batches later, not in the order of the batches.
TEST_P(FeederAllocations, OfReceipts) {
  with_device([](const Device& device) {
    const Numbers data({.size = 8 * 1000, .pattern_bytes = 100});
    Prefetcher feed(data, device, {.batch_size = 8, .workers = 2});
    constexpr std::size_t kKept = 4;
    std::array<Receipt, kKept> receipts;
    const auto step = [&](std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i) {
        Receipt& oldest = receipts[(i % 2 == 0 ? i : i + 2) % kKept];
        oldest.commit();
        oldest = feed.next()->receipt();
      }
    };
    step(kWarm);
    EXPECT_EQ(allocations_of([&] { step(kCounted); }), 0U);
  });
}

TEST_P(FeederAllocations, OfThePrefetcherAreCounted) {
  with_device([](const Device& device) {
    const Numbers data({.size = 8});
    EXPECT_GT(allocations_of([&] { Prefetcher(data, device, {.batch_size = 8}); }), 0U);
  });
}

}  // namespace allocations_test
}  // namespace leat::feeder
