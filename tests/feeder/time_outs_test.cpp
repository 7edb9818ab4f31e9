// A loop over next_until() whose waits time out, compared with one whose waits do not: in virtual
// time, where each figure of the stats is exact.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/host_model.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace time_outs_test {

using namespace std::chrono_literals;
using support::in_virtual_time;

// What a loop leaves behind.
struct Left {
  Batches batches;
  std::vector<std::string> states;
  Stats stats;
  std::size_t time_outs = 0;
};

struct Loop {
  std::size_t max_leases;
  bool on_stream;
  Sharing sharing;
};
void PrintTo(const Loop& loop, std::ostream* out) {  // NOLINT: GoogleTest's name
  *out << loop.max_leases << " leases" << (loop.on_stream ? ", on a stream" : "")
       << (loop.sharing == Sharing::kDynamic ? ", dynamic" : "");
}

// Two epochs in virtual time. `slice`: zero for a loop that does not time out.
Left left_by(const Loop& loop, Duration slice) {
  Left left;
  in_virtual_time([&] {
    // A batch is read in 400 ns and copied in 100.
    NumbersFeed feed({.size = 402, .pattern_bytes = 17, .read_time = 100ns},
                     {.batch_size = 4,
                      .max_leases = loop.max_leases,
                      .sharing = loop.sharing,
                      .sample_every = 2},
                     {.h2d_bandwidth = 1e9});
    const auto ask = [&](std::optional<Lease>& lease) {
      const TimePoint until = slice == 0ns ? TimePoint::max() : now() + slice;
      const ChannelStatus status = loop.on_stream ? feed.next_until(lease, until, feed.stream)
                                                  : feed.next_until(lease, until);
      left.time_outs += status == ChannelStatus::timed_out ? 1 : 0;
      return status;
    };
    std::optional<Lease> held;
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      feed.start(epoch);
      for (;;) {
        if (loop.max_leases == 1) held.reset();
        std::optional<Lease> batch;
        ChannelStatus status = ask(batch);
        while (status == ChannelStatus::timed_out) status = ask(batch);
        if (status == ChannelStatus::closed) break;
        left.batches.push_back(feed.want(*batch));
        if (loop.on_stream) {
          feed.launch_check(*batch, 50ns);
        } else {
          feed.check(*batch);
          sleep_for(50ns);
        }
        held = std::move(batch);
        left.states.push_back(feed.state());
      }
      held.reset();
    }
    feed.stream.sync();
    left.stats = feed.stats();
  });
  return left;
}

class NextUntilAgain : public testing::TestWithParam<Loop> {};
INSTANTIATE_TEST_SUITE_P(
    Loops, NextUntilAgain,
    testing::Values(Loop{1, false, Sharing::kStatic}, Loop{1, true, Sharing::kStatic},
                    Loop{3, false, Sharing::kStatic}, Loop{3, true, Sharing::kStatic},
                    Loop{1, true, Sharing::kDynamic}, Loop{3, false, Sharing::kDynamic}));

TEST_P(NextUntilAgain, AThousandTimeOutsChangeNeitherOrderNorStateNorStats) {
  const Left whole = left_by(GetParam(), 0ns);
  const Left sliced = left_by(GetParam(), 10ns);
  EXPECT_EQ(whole.time_outs, 0U);
  EXPECT_GE(sliced.time_outs, 1000U);
  EXPECT_EQ(whole.batches.size(), 2U * 101);
  EXPECT_EQ(sliced.batches, whole.batches);
  EXPECT_EQ(sliced.states, whole.states);
  EXPECT_GE(whole.stats.sampled_steps, 50U);
  EXPECT_GT(whole.stats.consumer.starved, 0.1);
  EXPECT_EQ(sliced.stats.batches, whole.stats.batches);
  EXPECT_EQ(sliced.stats.sampled_steps, whole.stats.sampled_steps);
  EXPECT_EQ(sliced.stats.timed_copies, whole.stats.timed_copies);
  EXPECT_EQ(sliced.stats.t_x, whole.stats.t_x);
  EXPECT_EQ(sliced.stats.t_c, whole.stats.t_c);
  EXPECT_EQ(sliced.stats.t_step, whole.stats.t_step);
  EXPECT_EQ(sliced.stats.step.p99, whole.stats.step.p99);
  EXPECT_EQ(sliced.stats.bubble.p50, whole.stats.bubble.p50);
  EXPECT_EQ(sliced.stats.idle_ends, whole.stats.idle_ends);
  EXPECT_EQ(sliced.stats.consumer.starved, whole.stats.consumer.starved);
  EXPECT_EQ(sliced.stats.consumer.blocked, whole.stats.consumer.blocked);
  EXPECT_EQ(sliced.stats.copier.blocked, whole.stats.copier.blocked);
  EXPECT_EQ(sliced.stats.table(), whole.stats.table());
}

}  // namespace time_outs_test
}  // namespace leat::feeder
