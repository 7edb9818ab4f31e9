// What stats say: of numbers that are made up, and what a report has.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/stats.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace stats_text_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::Numbers;

// Tc alone is 91 % of the step, and yet it is not the consumer that could be faster.
TEST(FeederStats, OfShortCopiesThatTakeTurnsWithCompute) {
  Stats stats;
  stats.batches = 100;
  stats.sampled_steps = stats.timed_copies = 50;
  stats.workers = 1;
  stats.prefetch_depth = stats.device_slots = 1;
  stats.pinned_slots = 2;
  stats.t_x = 0.5e-3;
  stats.t_c = 5e-3;
  stats.t_step = 5.5e-3;
  stats.consumer = {.busy = 5 / 5.5, .starved = 0.5 / 5.5, .blocked = 0};
  expect_begins(stats.bottleneck(),
                "Copies and compute take turns, because prefetch_depth is 1: with 2 they overlap, "
                "and a step takes max(Tc, Tx) = 5.00 ms instead of 5.50 ms.");
  // With 2 the readers would limit it.
  stats.t_read = 5.3e-3;
  expect_begins(stats.bottleneck(),
                "Copies and compute take turns, because prefetch_depth is 1: with 2 they overlap, "
                "and a step takes 5.30 ms instead of 5.50 ms.");
  // There is nothing to gain.
  stats.t_read = 5.5e-3;
  expect_begins(stats.bottleneck(), "The readers limit the loop");
  stats.t_read = 0;
  stats.t_x = 0.05e-3;
  stats.t_step = 5.05e-3;
  expect_begins(stats.bottleneck(), "The consumer limits the loop");
}

TEST(FeederStats, TheDiskIsNamedWhereReadersMostlyWaitForIt) {
  Stats stats = {.batches = 100,
                 .sampled_steps = 50,
                 .timed_copies = 50,
                 .workers = 1,
                 .prefetch_depth = 2,
                 .device_slots = 2,
                 .pinned_slots = 3,
                 .batch_bytes = 1e6,
                 .t_read = 10e-3,
                 .t_read_cpu = 3e-3,
                 .cold_bytes = 0.8e6,
                 .hot_bytes = 0.2e6,
                 .major_faults = 1.5,
                 .t_x = 1e-3,
                 .t_c = 5e-3,
                 .t_step = 10e-3,
                 .reader = {.busy = 1, .starved = 0, .blocked = 0}};
  const std::string disk =
      "The disk limits the loop: it delivers 80.0 MB/s, and the readers wait for it (Tread / "
      "workers is 100.0 % of the step, and they compute for 30.0 % of that). Data in memory, or a "
      "faster disk, would help; more workers only if the disk gives more to them";
  EXPECT_EQ(stats.bottleneck(),
            disk +
                "; at most, 2 workers instead of 1 and 4 pinned slots instead of 3: +100 %, "
                "then limited by the consumer, at 5.00 ms a step.");
  expect_contains(stats.table(), {"\n  read from the disk 800 kB a batch (80.0 MB/s), from memory "
                                  "200 kB; 1.500 major faults a batch\n"});
  stats.t_c = 9.9e-3;
  stats.idle_ends = 0.5;
  EXPECT_EQ(stats.bottleneck(), disk + ".");
  stats.idle_ends = 0;
  stats.t_c = 5e-3;
  stats.t_read_cpu = 8e-3;  // they decode
  expect_begins(stats.bottleneck(), "The readers limit the loop");
  stats.t_read_cpu = 3e-3;
  stats.cpus = 1;
  stats.workers = 4;  // they wait for the CPU
  stats.t_read = 40e-3;
  stats.t_read_cpu = 9e-3;
  expect_begins(stats.bottleneck(), "The readers limit the loop");
  stats.t_read_cpu = 3e-3;
  stats.cold_bytes = 0;  // not counted: FUSE
  expect_begins(stats.bottleneck(), "The disk limits the loop");
  expect_contains(stats.table(), {"1.500 major faults a batch"});
  stats.major_faults = 0;
  stats.cold_bytes = 0.1e6;  // something else takes them so long
  expect_begins(stats.bottleneck(), "The readers limit the loop");
  stats.cold_bytes = 900;  // the file's header
  EXPECT_EQ(stats.table().find("disk"), std::string::npos);
}

// Copies of 2.5 ms beside work of 99.96 ms.
Stats long_work() {
  return {.batches = 320,
          .sampled_steps = 20,
          .workers = 2,
          .prefetch_depth = 2,
          .batch_bytes = 400,
          .t_read = 12.3e-6,
          .t_x = 2.5e-3,
          .t_c = 99.96e-3,
          .t_step = 0.1,
          .step = {.p50 = 99.9e-3, .p99 = 0.12},
          .bubble = {.p50 = 1.5e-6, .p99 = 20e-3},
          .reader = {.busy = 0.1, .starved = 0, .blocked = 0.9},
          .copier = {.busy = 0.025, .starved = 0.005, .blocked = 0.97},
          .consumer = {.busy = 1, .starved = 0, .blocked = 0}};
}

// A loop that never overlaps would have nearly the same OE, and "hidden" is the difference of two
// nearly equal times.
TEST(FeederStats, TheTableBeginsWithTheLimitAndLeavesOutWhatIsNoise) {
  EXPECT_EQ("\n" + long_work().table(), R"(
  The consumer limits the loop (Tc is 100.0 % of the step): reading and copying
  are hidden behind it, and only a faster step helps.
  a step     Tstep 100 ms      at most 120 ms; 20 of 320 steps were sampled
  reader     Tread 12.3 us / 2 works 10.0 % of the step, is ahead 90.0 %
  copier     Tx    2.50 ms     works 2.5 %, is ahead 97.0 %
  consumer   Tc    100 ms      works 100.0 %
  Overlap can save at most Tx, 2.5 % of the step: OE says nothing here.
)");

  Stats stats = long_work();
  stats.device_slots = 1;
  stats.t_x = 0.3e-3;
  EXPECT_TRUE(stats.bottleneck().ends_with(
      "reading is hidden behind it, copying is short, and only a faster step helps."))
      << stats.bottleneck();
  stats.t_c = 0.91 * stats.t_step;
  EXPECT_NE(stats.table().find("OE says nothing here"), std::string::npos);
  stats.t_c = 0.89 * stats.t_step;
  EXPECT_NE(stats.table().find("OE = max(Tc, Tx) / Tstep = 0.890"), std::string::npos);
}

TEST(FeederStats, TheTableSaysHowWellCopiesThatMatterAreHidden) {
  Stats stats = long_work();
  stats.sampled_steps = 100;
  stats.workers = 1;
  stats.t_x = 40e-3;
  stats.t_c = 80e-3;
  stats.copier = {.busy = 0.4, .starved = 0.6, .blocked = 0};
  stats.consumer = {.busy = 0.8, .starved = 0.05, .blocked = 0.15};
  EXPECT_EQ("\n" + stats.table(), R"(
  The rest of the loop limits it: 15.0 % of the step pass between the release of
  a batch and the request of the next, Tc is 80.0 %.
  a step     Tstep 100 ms      99 of 100 at most 120 ms; 100 of 320 steps were sampled
  reader     Tread 12.3 us     works 10.0 % of the step, is ahead 90.0 %
  copier     Tx    40.0 ms     works 40.0 %, waits 60.0 %
  consumer   Tc    80.0 ms     works 80.0 %, waits 5.0 %, does other things 15.0 %
  OE = max(Tc, Tx) / Tstep = 0.800   bubble 20.0 ms   hidden 50.0 % of Tx
)");
  // What limits the step says something, and what is hidden of so little does not.
  stats.t_x = 2.5e-3;
  expect_contains(stats.table(), {"\n  OE = max(Tc, Tx) / Tstep = 0.800   bubble 20.0 ms\n"});
}

TEST(FeederStats, TheReportHasRanksMemoryAndWhatWasLeftOut) {
  std::string report;
  in_virtual_time([&] {
    const auto is_bad = [](std::uint64_t sample) { return sample == 7; };
    const Numbers data({.size = 400,
                        .pattern_bytes = 92,
                        .read_time = 200ns,
                        .on_read = failing_reads(is_bad, "torn")});
    Prefetcher prefetcher(data, open_devices(2, {.h2d_bandwidth = 1e9}),
                          {.batch_size = 8,
                           .pinned_slots = 3,
                           .read_failures = {.count = 1},
                           .autotune = Autotune{.max_workers = 2, .every = 8},
                           .max_pinned_bytes = 1'000'000,
                           .sample_every = 2});
    TaskGroup group;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      group.go([&, rank] {
        Feed& feed = prefetcher.rank(rank);
        const gpu::Stream stream(feed.device());
        for (Lease& batch : feed.epoch(0, stream)) {
          stream.launch_host([] {}, 100ns);
          static_cast<void>(batch);
        }
        stream.sync();
      });
    }
    group.wait();
    report = prefetcher.report();
  });
  expect_contains(
      report, {"rank 0 on host:0\n", "rank 1 on host:1\n", "Tread 800 ns",
               " M samples/s, copies at 1.00 GB/s\n", "pinned slots: 0.0 % in huge pages",
               " kB of at most 1.00 MB, device", " each\n", "1 samples failed and were left out",
               "autotune: 1 changes", "workers from 1 to 2"});
}

}  // namespace stats_text_test
}  // namespace leat::feeder
