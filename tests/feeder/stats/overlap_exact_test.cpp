// The proof of overlap: on a modelled device under virtual time, a run takes as long as arithmetic
// says, to the nanosecond. That each of its instants does: ../several_devices_exact_test.cpp.
//
// The modelled link takes a nanosecond a byte, so that a batch's size is its Tx. The consumer's
// kernel takes Tc and checks what it reads, at its start and at its end: no time is won by
// overwriting a batch too early.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace overlap_exact_test {

using namespace std::chrono_literals;
using support::in_virtual_time;

constexpr double kBytePerNanosecond = 1e9;

// What a step is made of.
struct Step {
  std::size_t batch_size = 1;
  std::size_t pattern_bytes = 1;  // of a sample, besides the 8 of its number
  Duration copy_latency = 0ns;    // of a batch's copy, in which its two tensors are one operation
  Duration tc = 0ns;

  [[nodiscard]] Duration tx() const {
    return Duration(static_cast<std::int64_t>(batch_size * (8 + pattern_bytes))) + copy_latency;
  }
};

std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << "Tx " << step.tx().count() << ", Tc " << step.tc.count();
}

// When the last kernel of an epoch of `batches` full batches has ended.
Duration measure(const Step& step, std::size_t batches, PrefetcherOptions options,
                 int scheduler_workers) {
  options.batch_size = step.batch_size;
  Duration end{};
  in_virtual_time({.workers = scheduler_workers}, [&] {
    NumbersFeed feed({.size = batches * step.batch_size, .pattern_bytes = step.pattern_bytes},
                     options,
                     {.h2d_bandwidth = kBytePerNanosecond, .copy_latency = step.copy_latency});
    for (Lease& batch : feed.epoch(0, feed.stream)) feed.launch_check(batch, step.tc);
    feed.stream.sync();
    end = support::elapsed();  // before the copies of the next epoch
  });
  return end;
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
            check(batches, measure(GetParam(), batches, options, scheduler_workers));
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

}  // namespace overlap_exact_test
}  // namespace leat::feeder
