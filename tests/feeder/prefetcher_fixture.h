// What the tests of a prefetcher share: one that brings numbers to a host device; its epochs, as
// they come and as they should; and every place that it may run in.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/numbers.h"
#include "tests/support/places.h"
#include "tests/support/texts.h"

namespace leat::feeder {

using support::expect_begins;
using support::expect_contains;
using support::expect_throws;

using Batches = std::vector<std::vector<std::uint64_t>>;

// The batches that are left of an epoch, as the CPU reads them.
inline Batches rest_of(Prefetcher& feed) {
  Batches batches;
  while (std::optional<Lease> batch = feed.next())
    batches.push_back(support::NumbersView(*batch).samples());
  return batches;
}

inline Batches epoch_of(Prefetcher& feed, std::uint64_t number) {
  Batches batches;
  for (Lease& batch : feed.epoch(number)) {
    EXPECT_EQ(batch.epoch(), number);
    EXPECT_EQ(batch.index(), batches.size());
    batches.push_back(support::NumbersView(batch).samples());
    EXPECT_EQ(batch.size(), batches.back().size());
  }
  return batches;
}

inline Batches expected_epoch(const Dataset& data, const PrefetcherOptions& options,
                              std::uint64_t number) {
  Batches batches;
  for (std::uint64_t first = 0; first < data.size(); first += options.batch_size) {
    if (options.last_batch == LastBatch::kDrop && first + options.batch_size > data.size()) break;
    batches.push_back(support::expected_samples(data, options, number, batches.size()));
  }
  return batches;
}

// What a rank's batch has to hold: its slice of the global batch.
inline std::vector<std::uint64_t> expected_shard(const Dataset& data,
                                                 const PrefetcherOptions& options, std::size_t rank,
                                                 std::size_t world, const Lease& batch) {
  const auto whole = support::expected_samples(data, options, batch);
  const PositionRange slice = balanced_slice(whole.size(), rank, world);
  const auto first = whole.begin() + static_cast<std::ptrdiff_t>(slice.first);
  return {first, first + static_cast<std::ptrdiff_t>(slice.count)};
}

// Takes what is left of an epoch.
inline std::size_t count_samples(Epoch&& epoch) {
  std::size_t samples = 0;
  for (Lease& batch : epoch) samples += batch.size();
  return samples;
}

// An on_read with which these samples cannot be read.
template <class IsBad>
std::function<void(std::uint64_t)> failing_reads(IsBad is_bad, const char* why) {
  return [=](std::uint64_t sample) {
    if (is_bad(sample)) throw std::range_error(why);
  };
}

// host:0, host:1, ...
inline std::vector<gpu::Device> open_devices(std::size_t count, const gpu::HostModel& model = {}) {
  std::vector<gpu::Device> devices;
  for (std::size_t i = 0; i < count; ++i) {
    devices.push_back(gpu::open_host(model, static_cast<int>(i)));
  }
  return devices;
}

// Nobody reads within this time.
inline void expect_nobody_reads(const support::Numbers& data, Duration meanwhile) {
  const std::uint64_t reads = data.reads();
  sleep_for(meanwhile);
  EXPECT_EQ(data.reads(), reads) << "somebody reads on";
}

// What a prefetcher of numbers needs, and what has to outlive it.
struct NumbersAndDevice {
  const support::Numbers data;
  const PrefetcherOptions options;
  const gpu::Device device;
  const gpu::Stream stream;
};

// Numbers on their way to a host device, in batches of 4 unless the options say otherwise.
struct NumbersFeed : NumbersAndDevice, Prefetcher {
  explicit NumbersFeed(support::NumbersOptions numbers,
                       const PrefetcherOptions& with = {.batch_size = 4},
                       const gpu::HostModel& model = {})
      : NumbersFeed(std::move(numbers), with, gpu::open_host(model)) {}

  [[nodiscard]] std::vector<std::uint64_t> want(const Lease& batch) const {
    return support::expected_samples(data, options, batch);
  }
  [[nodiscard]] std::vector<std::uint64_t> want(std::uint64_t epoch, std::uint64_t batch) const {
    return support::expected_samples(data, options, epoch, batch);
  }
  [[nodiscard]] Batches want_epoch(std::uint64_t number) const {
    return expected_epoch(data, options, number);
  }
  // As the CPU reads it.
  void check(Lease& batch) const {
    EXPECT_EQ(support::NumbersView(batch).samples(), want(batch)) << "batch " << batch.index();
  }
  // As a kernel on the stream does, which uses it so long.
  void launch_check(Lease& batch, Duration length = Duration::zero()) const {
    support::launch_check(stream, batch, want(batch), length);
  }

 private:
  NumbersFeed(support::NumbersOptions numbers, const PrefetcherOptions& with, const gpu::Device& on)
      : NumbersAndDevice{support::Numbers(std::move(numbers)), with, on, gpu::Stream(on)},
        Prefetcher(data, device, options) {}
};

class PrefetcherTest : public support::PlaceTest {
 protected:
  // Readers finish in another order than they began: in virtual time each sample takes its own, on
  // real workers each lets others go first.
  static std::function<void(std::uint64_t)> uneven_reads() {
    if (GetParam() == support::Place::kPlainThread) {
      return [](std::uint64_t sample) {
        for (std::uint64_t i = 0; i < sample % 5; ++i) yield();
      };
    }
    return [](std::uint64_t sample) { sleep_for(Duration(sample * 7919 % 97)); };
  }
};

}  // namespace leat::feeder
