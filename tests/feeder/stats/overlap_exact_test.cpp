// The proof of overlap: on a modelled device under virtual time, every instant of a run equals
// arithmetic, to the nanosecond.
//
// The modelled link takes a nanosecond a byte, so that a batch's size is its Tx. The consumer's
// kernel takes Tc and checks what it reads, at its start and at its end: no time is won by
// overwriting a batch too early.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <ostream>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/instants.h"
#include "tests/support/numbers.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace overlap_exact_test {

using namespace std::chrono_literals;
using support::expected_samples;
using support::in_virtual_time;
using support::launch_check;
using support::Numbers;

constexpr double kBytePerNanosecond = 1e9;

// What a step is made of.
struct Step {
  std::size_t batch_size = 1;
  std::size_t pattern_bytes = 1;  // of a sample, besides the 8 of its number
  Duration copy_latency = 0ns;    // of a batch's copy, in which its two tensors are one operation
  Duration tc = 0ns;
  Duration sample_read = 0ns;

  [[nodiscard]] Duration tx() const {
    return Duration(static_cast<std::int64_t>(batch_size * (8 + pattern_bytes))) + copy_latency;
  }
  [[nodiscard]] Duration tread() const {
    return static_cast<std::int64_t>(batch_size) * sample_read;
  }
};

std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << "Tread " << step.tread().count() << ", Tx " << step.tx().count() << ", Tc "
             << step.tc.count();
}

// One epoch of `batches` full batches.
std::vector<Instants> measure(const Step& step, std::size_t batches, PrefetcherOptions options,
                              int scheduler_workers) {
  std::vector<Instants> at(batches);
  options.batch_size = step.batch_size;
  options.order = Order::kSequential;  // so that a sample's batch is known when it is read
  in_virtual_time({.workers = scheduler_workers}, [&] {
    const gpu::Device device =
        gpu::open_host({.h2d_bandwidth = kBytePerNanosecond, .copy_latency = step.copy_latency});
    std::mutex reading;  // several readers, and the next epoch's
    std::vector<std::size_t> reads(batches, 0);
    const Numbers data({.size = batches * step.batch_size,
                        .pattern_bytes = step.pattern_bytes,
                        .read_time = step.sample_read,
                        .on_read = [&](std::uint64_t sample) {
                          const std::size_t batch = sample / step.batch_size;
                          const std::scoped_lock lock(reading);
                          if (reads[batch]++ >= step.batch_size) return;  // of the next epoch
                          at[batch].read = now().time_since_epoch();
                        }});
    Prefetcher feed(data, device, options);
    take_instants(feed.rank(0), at, [&](Lease& batch, const gpu::Stream& stream) {
      launch_check(stream, batch, expected_samples(data, options, batch), step.tc);
    });
  });
  return at;
}

// The same by the recurrence at the head of feeder/prefetcher.h.
std::vector<Instants> compute(const Step& step, std::size_t batches,
                              const PrefetcherOptions& options) {
  std::vector<Instants> at(batches);
  const auto before = [&](std::size_t k, std::size_t distance, Duration Instants::*instant) {
    return k < distance ? Duration(0) : at[k - distance].*instant;
  };
  for (std::size_t k = 0; k < batches; ++k) {
    at[k].read = std::max(before(k, options.workers, &Instants::read),
                          before(k, options.pinned_slots, &Instants::staged)) +
                 step.tread();
    at[k].staged = std::max({at[k].read, before(k, 1, &Instants::staged),
                             before(k, options.prefetch_depth, &Instants::done)}) +
                   step.tx();
    at[k].done = std::max(at[k].staged, before(k, 1, &Instants::done)) + step.tc;
  }
  return at;
}

class OverlapExact : public testing::TestWithParam<Step> {
 protected:
  // Calls check(batches, depth, time until the last kernel's end) for every configuration that must
  // not matter otherwise.
  template <class Check>
  void for_each_run(std::initializer_list<std::size_t> depths, const Check& check) {
    for (const std::size_t batches : {1U, 2U, 3U, 100U}) {
      for (const std::size_t depth : depths) {
        for (const std::size_t readers : {1U, 2U, 4U}) {
          for (const int scheduler_workers : {1, 2}) {
            SCOPED_TRACE(testing::Message()
                         << GetParam() << "; " << batches << " batches, depth " << depth << ", "
                         << readers << " readers on " << scheduler_workers << " workers");
            const PrefetcherOptions options = {.prefetch_depth = depth, .workers = readers};
            check(batches, measure(GetParam(), batches, options, scheduler_workers).back().done);
          }
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(
    Steps, OverlapExact,
    testing::Values(Step{.batch_size = 10, .pattern_bytes = 92, .tc = 1700ns},  // Tx < Tc
                    Step{.batch_size = 10, .pattern_bytes = 92, .tc = 1000ns},  // Tx = Tc
                    Step{.batch_size = 10, .pattern_bytes = 242, .tc = 900ns},  // Tx > Tc
                    Step{.batch_size = 1, .pattern_bytes = 1, .tc = 50'000ns},  // Tx tiny
                    Step{.batch_size = 3, .pattern_bytes = 1001, .tc = 1ns},    // Tc tiny
                    Step{.batch_size = 3, .pattern_bytes = 5, .tc = 0ns},       // no Tc at all
                    Step{.batch_size = 7, .pattern_bytes = 13, .copy_latency = 250ns, .tc = 700ns},
                    Step{.batch_size = 4, .pattern_bytes = 2, .copy_latency = 30ns, .tc = 101ns}));

TEST_P(OverlapExact, WithDepth2OrMoreCopiesAndComputeHideEachOther) {
  const Duration tx = GetParam().tx();
  const Duration tc = GetParam().tc;
  for_each_run({2U, 3U}, [&](std::size_t batches, Duration time) {
    EXPECT_EQ(time, tx + static_cast<std::int64_t>(batches - 1) * std::max(tx, tc) + tc);
  });
}

TEST_P(OverlapExact, WithDepth1TheyTakeTurns) {
  const Duration tx = GetParam().tx();
  const Duration tc = GetParam().tc;
  for_each_run({1U}, [&](std::size_t batches, Duration time) {
    EXPECT_EQ(time, static_cast<std::int64_t>(batches) * (tx + tc));
  });
}

class OverlapRecurrence : public testing::TestWithParam<Step> {};

// Tx is 400 everywhere; each of the five terms of the mean step is the longest one somewhere.
INSTANTIATE_TEST_SUITE_P(
    Steps, OverlapRecurrence,
    testing::Values(Step{.batch_size = 4, .pattern_bytes = 92, .tc = 300ns, .sample_read = 75ns},
                    Step{.batch_size = 4, .pattern_bytes = 92, .tc = 1000ns, .sample_read = 100ns},
                    Step{.batch_size = 4, .pattern_bytes = 92, .tc = 100ns, .sample_read = 300ns},
                    Step{.batch_size = 4, .pattern_bytes = 92, .tc = 400ns, .sample_read = 100ns},
                    Step{.batch_size = 4, .pattern_bytes = 92, .tc = 1ns, .sample_read = 2000ns},
                    Step{.batch_size = 2,
                         .pattern_bytes = 42,
                         .copy_latency = 300ns,
                         .tc = 397ns,
                         .sample_read = 251ns}));

TEST_P(OverlapRecurrence, EveryInstantIsThatOfTheArithmetic) {
  constexpr std::size_t kBatches = 24;
  for (const std::size_t readers : {1U, 2U, 3U}) {
    for (const std::size_t pinned : {2U, 3U, 4U, 5U, 6U}) {
      for (const std::size_t depth : {1U, 2U, 3U}) {
        for (const int scheduler_workers : {1, 2}) {
          SCOPED_TRACE(testing::Message()
                       << GetParam() << "; W " << readers << ", P " << pinned << ", d " << depth
                       << " on " << scheduler_workers << " workers");
          const PrefetcherOptions options = {
              .prefetch_depth = depth, .workers = readers, .pinned_slots = pinned};
          ASSERT_EQ(measure(GetParam(), kBatches, options, scheduler_workers),
                    compute(GetParam(), kBatches, options));
        }
      }
    }
  }
}

// Once the start is forgotten: over a number of steps in which all slots and readers have had as
// many turns each, so that there is nothing to be rounded.
TEST_P(OverlapRecurrence, TheMeanStepIsTheLongestOfItsFiveTerms) {
  constexpr std::size_t kPeriod = 12;
  constexpr std::size_t kBatches = 60 + kPeriod;
  const Step& step = GetParam();
  for (const std::size_t readers : {1U, 2U, 3U}) {
    for (const std::size_t pinned : {2U, 3U, 4U, 6U}) {
      for (const std::size_t depth : {1U, 2U, 3U}) {
        SCOPED_TRACE(testing::Message()
                     << step << "; W " << readers << ", P " << pinned << ", d " << depth);
        const auto at =
            measure(step, kBatches,
                    {.prefetch_depth = depth, .workers = readers, .pinned_slots = pinned}, 1);
        const auto of = [](Duration time, std::size_t turns) {
          return time * static_cast<std::int64_t>(kPeriod / turns);
        };
        EXPECT_EQ(at[kBatches - 1].done - at[kBatches - 1 - kPeriod].done,
                  std::max({of(step.tread(), readers), of(step.tx(), 1), of(step.tc, 1),
                            of(step.tx() + step.tc, depth), of(step.tread() + step.tx(), pinned)}));
      }
    }
  }
}

}  // namespace overlap_exact_test
}  // namespace leat::feeder
