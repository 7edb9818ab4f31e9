// Leases: what they give access to, what binding and releasing order, and that no batch is ever
// overwritten while somebody may still read it.
#include "leat/feeder/lease.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/slots/slots.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/plain_threads.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace lease_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::kPlaces;
using support::launch_check;
using support::NumbersView;
using support::on_plain_threads;
using support::place_title;

const gpu::HostModel kByteANanosecond = {.h2d_bandwidth = 1e9};
const support::NumbersOptions kSamplesOf1000Bytes = {.size = 8, .pattern_bytes = 992};

std::vector<gpu::Stream> streams_on(const gpu::Device& device, std::size_t count) {
  std::vector<gpu::Stream> streams;
  for (std::size_t i = 0; i < count; ++i) streams.emplace_back(device);
  return streams;
}

class LeaseTest : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, LeaseTest, testing::ValuesIn(kPlaces), place_title);

// Tensors.

TEST_P(LeaseTest, ATensorHasTheNameTypeShapeAndBytesOfItsField) {
  in_place([] {
    NumbersFeed feed({.size = 10, .pattern_bytes = 5});
    for (Lease& batch : feed.epoch(0)) {
      const std::int64_t samples = batch.index() == 2 ? 2 : 4;  // the last is partial
      EXPECT_EQ(batch.size(), static_cast<std::size_t>(samples));
      const Tensor number = batch["number"];
      EXPECT_EQ(number.name(), "number");
      EXPECT_EQ(number.dtype(), DType::kInt64);
      EXPECT_EQ(std::vector(number.shape().begin(), number.shape().end()),
                (std::vector<std::int64_t>{samples}));
      EXPECT_EQ(number.bytes(), batch.size() * 8);
      const Tensor pattern = batch["pattern"];
      EXPECT_EQ(pattern.name(), "pattern");
      EXPECT_EQ(pattern.dtype(), DType::kUint8);
      EXPECT_EQ(std::vector(pattern.shape().begin(), pattern.shape().end()),
                (std::vector<std::int64_t>{samples, 5}));
      EXPECT_EQ(pattern.bytes(), batch.size() * 5);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pattern.data<std::uint8_t>()) % 256, 0U);
    }
  });
}

TEST_P(LeaseTest, AnotherTypeThanTheTensorsOrAnUnknownNameIsRefusedAndWhatThereIsNamed) {
  in_place([] {
    NumbersFeed feed({.size = 4});
    Lease batch = *feed.next();
    const Tensor number = batch["number"];
    EXPECT_NO_THROW(static_cast<void>(number.data<std::int64_t>()));
    expect_throws<std::invalid_argument>([&] { static_cast<void>(number.data<float>()); },
                                         {"\"number\"", "int64", "float32"});
    expect_throws<std::invalid_argument>([&] { static_cast<void>(number.data<std::uint8_t>()); },
                                         {"int64", "uint8"});
    expect_throws<std::out_of_range>([&] { static_cast<void>(batch["image"]); },
                                     {"\"image\"", "number", "pattern"});
  });
}

// Use by the CPU.

TEST(LeaseInVirtualTime, UnboundUseWaitsForTheCopyOnce) {
  in_virtual_time({.workers = 2}, [] {
    NumbersFeed feed(kSamplesOf1000Bytes, {.batch_size = 4}, kByteANanosecond);
    Lease batch = *feed.next();
    EXPECT_EQ(now().time_since_epoch(), 0ns);  // announced; the copy is under way
    feed.check(batch);
    EXPECT_EQ(now().time_since_epoch(), 4us);
    static_cast<void>(batch["number"]);
    EXPECT_EQ(now().time_since_epoch(), 4us);
  });
}

TEST(LeaseInVirtualTime, LayoutTellsShapesAndAddressesBeforeTheCopyIsDone) {
  in_virtual_time({.workers = 2}, [] {
    NumbersFeed feed(kSamplesOf1000Bytes, {.batch_size = 4}, kByteANanosecond);
    Lease batch = *feed.next();
    const TensorSet layout = batch.layout();
    EXPECT_EQ(layout["pattern"].bytes(), 4 * 992U);
    EXPECT_EQ(now().time_since_epoch(), 0ns);
    EXPECT_EQ(batch.tensors()["pattern"].raw(), layout["pattern"].raw());
    EXPECT_EQ(now().time_since_epoch(), 4us);
    batch.release();
    EXPECT_THROW(static_cast<void>(batch.layout()), std::logic_error);
  });
}

TEST(LeaseInVirtualTime, BoundUseMakesTheStreamWaitAndNotTheHost) {
  in_virtual_time({.workers = 2}, [] {
    NumbersFeed feed(kSamplesOf1000Bytes, {.batch_size = 4}, kByteANanosecond);
    Lease batch = *feed.next();
    feed.launch_check(batch, 700ns);
    batch.release();
    EXPECT_EQ(now().time_since_epoch(), 0ns);
    feed.stream.sync();
    EXPECT_EQ(now().time_since_epoch(), 4'700ns);
  });
}

// Binding.

TEST_P(LeaseTest, BindingAStreamAgainCountsOnce) {
  in_place([] {
    NumbersFeed feed({.size = 64});
    const auto streams = streams_on(feed.device, kMaxStreams);
    for (Lease& batch : feed.epoch(0, streams[0])) {
      for (int again = 0; again < 3; ++again) {
        for (const gpu::Stream& stream : streams) EXPECT_EQ(&batch.on(stream), &batch);
      }
    }
  });
}

TEST_P(LeaseTest, AStreamTooManyIsRefusedAndTheOthersStayBound) {
  in_place([] {
    NumbersFeed feed({.size = 64});
    const auto streams = streams_on(feed.device, kMaxStreams + 1);
    for (Lease& batch : feed.epoch(0)) {
      for (std::size_t i = 0; i < kMaxStreams; ++i) batch.on(streams[i]);
      expect_throws<std::length_error>([&] { batch.on(streams[kMaxStreams]); },
                                       {std::to_string(kMaxStreams)});
      for (std::size_t i = 0; i < kMaxStreams; ++i)
        launch_check(streams[i], batch, feed.want(batch));
    }
    for (const gpu::Stream& stream : streams) stream.sync();
  });
}

TEST_P(LeaseTest, AStreamOfAnotherDeviceIsRefusedAndBothAreNamed) {
  in_place([] {
    NumbersFeed feed({.size = 8});
    const gpu::Device other = gpu::open("host:1");
    const gpu::Stream foreign(other);
    {
      Lease batch = *feed.next();
      expect_throws<std::invalid_argument>([&] { batch.on(foreign); }, {"host:0", "host:1"});
      feed.check(batch);
    }
    const auto loop = [&] {
      for (const Lease& batch : feed.epoch(0, foreign)) ADD_FAILURE() << batch.index();
    };
    EXPECT_THROW(loop(), std::invalid_argument);
    EXPECT_TRUE(feed.next().has_value());  // the lease that could not be bound was released
  });
}

// Releasing.

TEST_P(LeaseTest, MovingLeavesTheSourceEmptyAndTheBatchHeld) {
  in_place([] {
    NumbersFeed feed({.size = 16});
    Lease first = *feed.next();
    Lease second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what is being tested
    EXPECT_TRUE(second);
    EXPECT_THROW(static_cast<void>(feed.next()), std::logic_error);
    EXPECT_EQ(NumbersView(second).samples(), feed.want(0, 0));
    first.release();
    EXPECT_THROW(static_cast<void>(feed.next()), std::logic_error);
    second.release();
    EXPECT_TRUE(feed.next().has_value());
  });
}

TEST_P(LeaseTest, AssigningReleasesWhatWasHeld) {
  in_place([] {
    NumbersFeed feed({.size = 16}, {.batch_size = 4, .max_leases = 2});
    Lease lease = *feed.next();
    Lease later = *feed.next();
    lease = std::move(later);
    EXPECT_EQ(lease.index(), 1U);
    EXPECT_EQ(NumbersView(lease).samples(), feed.want(0, 1));
    const std::optional<Lease> third = feed.next();  // there is room for one more, and for one only
    EXPECT_EQ(third->index(), 2U);
    EXPECT_THROW(static_cast<void>(feed.next()), std::logic_error);
  });
}

TEST_P(LeaseTest, AssigningToItselfChangesNothing) {
  in_place([] {
    NumbersFeed feed({.size = 16});
    Lease lease = *feed.next();
    Lease& same = lease;
    lease = std::move(same);
    ASSERT_TRUE(lease);
    EXPECT_EQ(NumbersView(lease).samples(), feed.want(0, 0));
    EXPECT_THROW(static_cast<void>(feed.next()), std::logic_error);
  });
}

TEST_P(LeaseTest, ReleasingTwiceGivesTheBatchBackOnce) {
  in_place([] {
    NumbersFeed feed({.size = 400}, {.batch_size = 4, .max_leases = 2});
    std::optional<Lease> before = feed.next();
    std::uint64_t batches = 1;
    while (std::optional<Lease> batch = feed.next()) {
      before->release();  // its slot may be another batch's by the second time
      const auto samples = NumbersView(*batch).samples();
      before->release();
      EXPECT_FALSE(*before);
      EXPECT_EQ(samples, feed.want(0, batches++));
      before = std::move(batch);
    }
    EXPECT_EQ(batches, 100U);
    before.reset();
    EXPECT_EQ(feed.stats().batches, 100U);
  });
}

TEST_P(LeaseTest, AnEmptyLeaseThrowsAtEveryUse) {
  in_place([] {
    NumbersFeed feed({.size = 16});
    Lease lease = *feed.next();
    lease.release();
    EXPECT_THROW(lease.on(feed.stream), std::logic_error);
    EXPECT_THROW(static_cast<void>(lease["number"]), std::logic_error);
    EXPECT_THROW(static_cast<void>(lease.size()), std::logic_error);
    EXPECT_THROW(static_cast<void>(lease.epoch()), std::logic_error);
    EXPECT_THROW(static_cast<void>(lease.index()), std::logic_error);
  });
}

TEST_P(LeaseTest, MayBeReleasedByAnotherThread) {
  in_place([] {
    NumbersFeed feed({.size = 200});
    std::uint64_t batches = 0;
    while (std::optional<Lease> batch = feed.next()) {
      ASSERT_EQ(batch->index(), batches++);
      feed.launch_check(*batch);
      on_plain_threads(
          1, [lease = std::make_shared<Lease>(*std::move(batch))](int) { lease->release(); });
    }
    EXPECT_EQ(batches, 50U);
    feed.stream.sync();
  });
}

// As a tensor does whose deleter holds the lease: the last handle goes on the stream itself.
TEST_P(LeaseTest, MayBeReleasedByAKernel) {
  in_place([] {
    NumbersFeed feed({.size = 200}, {.batch_size = 4, .max_leases = 3});
    std::vector<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < feed.batches_per_epoch(); ++i) {
      Lease batch = *feed.next();
      batch.on(feed.stream);
      feed.stream.launch_host([&seen, lease = std::move(batch)]() mutable {
        seen.push_back(lease.index());
        lease.release();
      });
      if (i % feed.options.max_leases == feed.options.max_leases - 1) feed.stream.sync();
    }
    feed.stream.sync();
    EXPECT_EQ(seen.size(), 50U);
    EXPECT_EQ(feed.stats().batches, 50U);
  });
}

// No early overwrite. Each kernel checks the slot when it starts and when it ends.

const support::NumbersOptions kTenBatches = {.size = 40, .pattern_bytes = 92};  // of 400 bytes
const PrefetcherOptions kOneSlot = {.batch_size = 4, .prefetch_depth = 1};

TEST(LeaseInVirtualTime, KernelsOfBothStreamsEndBeforeTheSlotIsOverwritten) {
  // With one device slot a step is the copy, and then both kernels: there is one compute engine.
  for (const Duration a : {0ns, 100ns, 900ns}) {
    for (const Duration b : {0ns, 100ns, 900ns}) {
      in_virtual_time({.workers = 2}, [&] {
        NumbersFeed feed(kTenBatches, kOneSlot, kByteANanosecond);
        const gpu::Stream second(feed.device);
        for (Lease& batch : feed.epoch(0)) {
          feed.launch_check(batch, a);
          launch_check(second, batch, feed.want(batch), b);
        }
        feed.stream.sync();
        second.sync();
        EXPECT_EQ(now().time_since_epoch(), 10 * (400ns + a + b));
      });
    }
  }
}

TEST(LeaseInVirtualTime, AnyOneOfTheBoundStreamsHoldsUpTheNextCopy) {
  for (std::size_t streams = 1; streams <= kMaxStreams; ++streams) {
    for (std::size_t held = 0; held < streams; ++held) {
      in_virtual_time({.workers = 2}, [&] {
        NumbersFeed feed(kTenBatches, kOneSlot, kByteANanosecond);
        const auto on = streams_on(feed.device, streams);
        on[held].launch_host([] {}, 1h);  // something else, before it comes to the batch
        Lease first = *feed.next();
        for (const gpu::Stream& stream : on) first.on(stream);
        launch_check(on[held], first, feed.want(first));
        first.release();
        Lease second = *feed.next();
        feed.check(second);
        EXPECT_EQ(now().time_since_epoch(), 1h + 400ns) << "stream " << held << " of " << streams;
      });
    }
  }
}

TEST(LeaseInVirtualTime, NoBatchIsOverwrittenWhileAnyKernelMayReadIt) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    in_virtual_time({.workers = seed % 20 == 0 ? 2 : 1}, [&] {
      std::mt19937_64 random(seed);
      const support::NumbersOptions data = {.size = 150, .read_time = Duration(random() % 100)};
      const gpu::HostModel model = {.h2d_bandwidth = 1e8 * static_cast<double>(1 + random() % 20),
                                    .copy_latency = 10ns};
      const PrefetcherOptions options = {.batch_size = 1 + random() % 4,
                                         .prefetch_depth = 1 + random() % 4,
                                         .max_leases = 1 + random() % 3,
                                         .workers = 1 + random() % 3,
                                         .seed = seed,
                                         .sample_every = random() % 3};
      NumbersFeed feed(data, options, model);
      const auto streams = streams_on(feed.device, kMaxStreams);
      std::vector<Lease> held;  // released in any order
      std::uint64_t batches = 0;
      while (std::optional<Lease> batch = feed.next()) {
        ASSERT_EQ(batch->index(), batches++);
        const auto want = feed.want(*batch);
        for (const gpu::Stream& stream : streams) {
          if (random() % 2 == 0) launch_check(stream, *batch, want, Duration(random() % 400));
        }
        held.push_back(*std::move(batch));
        if (held.size() == options.max_leases) {
          std::swap(held.back(), held[random() % held.size()]);
          held.pop_back();
        }
      }
      EXPECT_EQ(batches, feed.batches_per_epoch());
      held.clear();
      for (const gpu::Stream& stream : streams) stream.sync();
    });
  }
}

}  // namespace lease_test
}  // namespace leat::feeder
