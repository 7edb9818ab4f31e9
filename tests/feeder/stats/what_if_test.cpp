// What-if: what the stats of one run say of another one, against that other run. On a modelled
// device, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/numbers.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace what_if_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::Numbers;

struct Load {
  Duration sample_read;  // of 4 samples in a batch
  Duration tc;
  Duration rest = 0ns;  // of the loop
};
constexpr std::size_t kBatchSize = 4;  // of 100 bytes: Tx is 400 ns

// The mean step of a long run, from the stats and from the clock.
struct Measured {
  Stats stats;
  double step = 0;
};

Measured measure(const Load& load, const Change& change) {
  constexpr std::size_t kSteps = 600;
  Measured measured;
  in_virtual_time([&] {
    const Numbers data(
        {.size = kBatchSize * kSteps, .pattern_bytes = 92, .read_time = load.sample_read});
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
    const gpu::Stream stream(device);
    Prefetcher feed(data, device,
                    {.batch_size = kBatchSize,
                     .prefetch_depth = change.device_slots,
                     .workers = change.workers,
                     .pinned_slots = change.pinned_slots,
                     .sample_every = 2});
    for (Lease& batch : feed.epoch(0, stream)) {
      stream.launch_host([] {}, load.tc);
      batch.release();
      if (load.rest > 0ns) stream.launch_host([] {}, load.rest);
    }
    stream.sync();
    measured.stats = feed.stats();
    measured.step = std::chrono::duration<double>(now().time_since_epoch()).count() / kSteps;
  });
  return measured;
}

TEST(WhatIf, WhatHappensThenIsWhatWasSaidToWithinTenPercent) {
  int compared = 0;
  int cell = 0;
  for (const Load& load :
       {Load{300ns, 300ns}, Load{100ns, 1000ns}, Load{25ns, 700ns}, Load{500ns, 350ns},
        Load{250ns, 100ns}, Load{90ns, 380ns}, Load{200ns, 300ns, 500ns}}) {
    const std::array changes = {Change{1, 2, 4},  Change{2, 2, 4}, Change{4, 2, 6},
                                Change{8, 3, 12}, Change{2, 1, 4}, Change{3, 4, 3}};
    std::array<double, changes.size()> happens{};
    std::ranges::transform(changes, happens.begin(),
                           [&](const Change& then) { return measure(load, then).step; });
    for (const Change& now : {Change{1, 2, 2}, Change{1, 1, 3}, Change{2, 2, 2}, Change{4, 2, 8}}) {
      if (support::is_left_out(cell++)) continue;
      const Measured today = measure(load, now);
      EXPECT_NEAR(today.stats.t_step, today.step, 0.05 * today.step);
      EXPECT_EQ(today.stats.cpus, 1U);
      EXPECT_EQ(today.stats.t_read_cpu, 0);
      for (std::size_t i = 0; i < changes.size(); ++i) {
        const Change& then = changes[i];
        const double is = happens[i];
        SCOPED_TRACE(testing::Message()
                     << "Tread " << 4 * load.sample_read.count() << ", Tc " << load.tc.count()
                     << ", rest " << load.rest.count() << "; W, d, P: " << now.workers << ", "
                     << now.device_slots << ", " << now.pinned_slots << " -> " << then.workers
                     << ", " << then.device_slots << ", " << then.pinned_slots);
        const Prediction said = today.stats.what_if(then);
        EXPECT_NEAR(said.t_step, is, 0.1 * is) << to_string(said.limit);
        EXPECT_NEAR(said.gain, today.stats.t_step / said.t_step - 1, 1e-9);
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, (support::is_left_out(1) ? 4 : 7 * 4) * 6);
}

TEST(WhatIf, WithNothingChangedNothingIsGained) {
  const Stats stats = measure({100ns, 300ns}, {1, 2, 3}).stats;
  EXPECT_NEAR(stats.what_if({}).t_step, stats.t_step, 1e-15);
  EXPECT_NEAR(stats.what_if({}).gain, 0, 1e-9);
  EXPECT_EQ(Stats{}.what_if({.workers = 8}).t_step, 0);
}

// The CPUs that there are bound what more workers gain, where reading computes.
TEST(WhatIf, MoreWorkersThanCpusGainNothingWhereReadingComputes) {
  Stats stats = {.workers = 2,
                 .devices = 1,
                 .prefetch_depth = 2,
                 .device_slots = 2,
                 .pinned_slots = 8,
                 .t_read = 8e-3,
                 .t_read_cpu = 8e-3,
                 .cpus = 2,
                 .t_x = 1e-3,
                 .t_c = 1e-3,
                 .t_step = 4e-3,
                 .reader = {.busy = 1, .starved = 0, .blocked = 0}};
  EXPECT_NEAR(stats.what_if({.workers = 8}).gain, 0, 1e-9);
  EXPECT_EQ(stats.what_if({.workers = 8}).limit, Limit::kCpus);
  EXPECT_EQ(stats.bottleneck(),
            "The readers limit the loop (Tread / workers is 100.0 % of the step): the CPUs that "
            "read would limit more of them too; a faster dataset would help.");
  stats.t_read_cpu = 4e-3;  // half of it is waiting
  EXPECT_NEAR(stats.what_if({.workers = 8}).gain, 1, 1e-9);
}

TEST(WhatIf, TheSentenceSaysHowManyWhatIsGainedAndWhatLimitsThen) {
  const Stats readers = measure({300ns, 1000ns}, {1, 2, 3}).stats;
  EXPECT_EQ(readers.bottleneck(),
            "The readers limit the loop (Tread / workers is 100.0 % of the step): 2 workers "
            "instead of 1 and 4 pinned slots instead of 3: +20 %, then limited by the consumer, at "
            "1.00 us a step; or a faster dataset.");
  const Stats pinned = measure({250ns, 100ns}, {2, 2, 2}).stats;
  EXPECT_NE(
      pinned.bottleneck().find("4 pinned slots instead of 2: +40 %, then limited by the readers"),
      std::string::npos)
      << pinned.bottleneck();
}

}  // namespace what_if_test
}  // namespace leat::feeder
