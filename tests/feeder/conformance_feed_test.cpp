// What a prefetcher promises on every device: batches arrive whole in device memory, in order,
// without the host's waiting, and are not overwritten while a stream reads them.
//
// Only copies look into a batch, so that no test asks what kind of device it is on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "tests/support/backends.h"
#include "tests/support/numbers.h"

namespace leat::feeder {
namespace conformance_feed_test {

using gpu::Device;
using gpu::Event;
using gpu::PinnedBuffer;
using gpu::Stream;
using support::backend_title;
using support::expected_samples;
using support::Numbers;
using support::test_backends;

class Feeding : public support::BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, Feeding, testing::ValuesIn(test_backends()), backend_title);

gpu::DeviceSpan span_of(const Tensor& tensor) { return {tensor.raw(), tensor.bytes()}; }

/// What a batch held when the work that was enqueued before had run, as its streams saw it.
class Seen {
 public:
  Seen(const Stream& stream, Lease& batch, std::vector<std::uint64_t> want)
      : want_(std::move(want)),
        numbers_(stream.device(), std::max<std::size_t>(batch["number"].bytes(), 1)),
        patterns_(stream.device(), std::max<std::size_t>(batch["pattern"].bytes(), 1)),
        done_(stream.device()) {
    EXPECT_EQ(batch.size(), want_.size());
    const Tensor number = batch["number"];
    const Tensor pattern = batch["pattern"];
    if (number.bytes() > 0) {
      gpu::copy_async(stream, numbers_.subspan(0, number.bytes()), span_of(number));
      gpu::copy_async(stream, patterns_.subspan(0, pattern.bytes()), span_of(pattern));
    }
    done_.record(stream);
  }
  void check() const {
    done_.sync();
    for (std::size_t i = 0; i < want_.size(); ++i) {
      std::int64_t number = 0;
      std::memcpy(&number, numbers_.data() + 8 * i, sizeof number);
      ASSERT_EQ(static_cast<std::uint64_t>(number), want_[i]) << "sample " << i << " of the batch";
      const std::size_t bytes = patterns_.size() / want_.size();
      for (std::size_t j = 0; j < bytes; ++j) {
        ASSERT_EQ(patterns_.data()[i * bytes + j], std::byte{support::pattern_byte(want_[i], j)});
      }
    }
  }

 private:
  std::vector<std::uint64_t> want_;
  PinnedBuffer numbers_;
  PinnedBuffer patterns_;
  Event done_;
};

TEST_P(Feeding, EveryBatchArrivesWhole) {
  with_device([](const Device& device) {
    const Numbers data({.size = 203, .pattern_bytes = 500});
    const Stream stream(device);
    for (const std::size_t depth : {1U, 2U, 3U}) {
      for (const std::size_t chunk : {0U, 1000U}) {
        const PrefetcherOptions options = {
            .batch_size = 16, .prefetch_depth = depth, .workers = 2, .copy_chunk_bytes = chunk};
        Prefetcher feed(data, device, options);
        std::deque<Seen> seen;
        for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
          for (Lease& batch : feed.epoch(epoch, stream)) {
            seen.emplace_back(stream, batch, expected_samples(data, options, batch));
          }
        }
        ASSERT_EQ(seen.size(), 2U * 13);
        for (const Seen& one : seen) one.check();
      }
    }
  });
}

// Several streams read each batch, and are far behind the host when it is released.
TEST_P(Feeding, ABatchIsNotOverwrittenWhileAnyOfItsStreamsReadsIt) {
  with_device([](const Device& device) {
    const Numbers data({.size = 160, .pattern_bytes = 2000});
    const std::array<Stream, 3> streams = {Stream(device), Stream(device), Stream(device)};
    const PinnedBuffer large(device, 4 << 20);
    const std::array<gpu::DeviceBuffer, 3> there = {gpu::DeviceBuffer(device, 4 << 20),
                                                    gpu::DeviceBuffer(device, 4 << 20),
                                                    gpu::DeviceBuffer(device, 4 << 20)};
    std::mt19937 random(1);
    const PrefetcherOptions options = {.batch_size = 16, .max_leases = 2, .workers = 2};
    Prefetcher feed(data, device, options);
    std::deque<Seen> seen;
    std::vector<Lease> held;
    for (int epoch = 0; epoch < 3; ++epoch) {
      while (std::optional<Lease> batch = feed.next()) {
        const auto want = expected_samples(data, options, *batch);
        for (std::size_t i = 0; i < streams.size(); ++i) {
          const Stream& stream = streams[i];
          if (random() % 3 == 0) continue;
          batch->on(stream);
          if (random() % 2 == 0) gpu::copy_async(stream, there[i].span(), large.span());
          seen.emplace_back(stream, *batch, want);
        }
        held.push_back(*std::move(batch));
        if (held.size() == 2 || random() % 2 == 0) held.erase(held.begin());
      }
      held.clear();
    }
    for (const Seen& one : seen) one.check();
    for (const Stream& stream : streams) stream.sync();
  });
}

TEST_P(Feeding, TwoDevicesShareTheReaders) {
  with_two_devices([](const Device& first, const Device& second) {
    const Numbers data({.size = 100, .pattern_bytes = 100});
    const PrefetcherOptions options = {.batch_size = 16, .workers = 2};
    Prefetcher prefetcher(data, {first, second}, options);
    const Stream one(first);
    const Stream other(second);
    std::deque<Seen> seen;
    for (std::uint64_t step = 0; step < 2 * prefetcher.batches_per_epoch(); ++step) {
      for (const std::size_t rank : {0U, 1U}) {
        std::optional<Lease> batch = prefetcher.rank(rank).next();
        if (!batch.has_value()) batch = prefetcher.rank(rank).next();
        const Stream& stream = rank == 0 ? one : other;
        batch->on(stream);
        const auto whole = expected_samples(data, options, *batch);
        const PositionRange slice = balanced_slice(whole.size(), rank, 2);
        const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(slice.first);
        seen.emplace_back(stream, *batch,
                          std::vector(begin, begin + static_cast<std::ptrdiff_t>(slice.count)));
        EXPECT_THROW(batch->on(rank == 0 ? other : one), std::invalid_argument);
      }
    }
    for (const Seen& one_seen : seen) one_seen.check();
  });
}

TEST_P(Feeding, ATransformRunsBeforeTheConsumer) {
  with_device([](const Device& device) {
    const Numbers data({.size = 64});
    const Stream stream(device);
    const DeviceTransform duplicate = {
        .fields = {{"number", DType::kInt64, {}}},
        .function = [](const TensorSet& in, const TensorSet& out, const gpu::StreamRef& on) {
          gpu::copy_async(on, span_of(out["number"]), span_of(in["number"]));
        }};
    const PrefetcherOptions options = {.batch_size = 8, .device_transform = duplicate};
    Prefetcher feed(data, device, options);
    std::deque<Seen> seen;
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      for (Lease& batch : feed.epoch(epoch, stream)) {
        seen.emplace_back(stream, batch, expected_samples(data, options, batch));
      }
    }
    for (const Seen& one : seen) one.check();
  });
}

TEST_P(Feeding, EndsWithWorkEnqueuedAndLeasesHeld) {
  with_device([](const Device& device) {
    const Numbers data({.size = 640, .pattern_bytes = 2000});
    const PrefetcherOptions options = {.batch_size = 16, .max_leases = 2, .workers = 2};
    const Stream stream(device);
    std::deque<Seen> seen;
    std::optional<Lease> kept;
    {
      Prefetcher feed(data, device, options);
      for (Lease& batch : feed.epoch(0, stream)) {
        seen.emplace_back(stream, batch, expected_samples(data, options, batch));
        if (batch.index() < 5) continue;
        kept = std::move(batch);
        break;
      }
    }
    seen.emplace_back(stream, *kept, expected_samples(data, options, *kept));
    kept.reset();
    for (const Seen& one : seen) one.check();
  });
}

}  // namespace conformance_feed_test
}  // namespace leat::feeder
