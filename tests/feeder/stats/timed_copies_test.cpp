// A loop that binds no stream is timed at every step, but of its copies only some are: until the
// first one was, nothing is said that would need Tx, and then it is known in each stretch of the
// measurements. In virtual time, where a copy takes 10 ms and the loop's own work 1 ms.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/stats/step_timing.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/numbers.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace timed_copies_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::Numbers;

constexpr double kCopy = 10e-3;

template <class Loop>
void with_feed(PrefetcherOptions options, const Loop& loop, Duration read_time = Duration::zero()) {
  in_virtual_time([&] {
    options.batch_size = 4;
    const Numbers data({.size = 4096, .read_time = read_time / 4});
    const double bytes = static_cast<double>(options.batch_size * data.bytes());
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = bytes / kCopy});
    Prefetcher feed(data, device, options);
    loop(feed);
  });
}

void consume(Prefetcher& feed, std::size_t batches) {
  for (std::size_t i = 0; i < batches; ++i) {
    std::optional<Lease> batch = feed.next();
    EXPECT_NE((*batch)["number"].data<std::int64_t>(), nullptr);  // waits for the copy
    sleep_for(1ms);
    batch->release();
  }
}

TEST(TimedCopies, BeforeTheFirstNothingIsSaidOfTheLink) {
  with_feed({}, [](Prefetcher& feed) {
    consume(feed, 12);
    const Stats stats = feed.stats();
    EXPECT_EQ(stats.sampled_steps, 11U);
    EXPECT_EQ(stats.timed_copies, 0U);
    EXPECT_FALSE(stats.is_measured());
    EXPECT_NEAR(stats.t_step, kCopy, 1e-9);
    EXPECT_NEAR(stats.step.p99, kCopy, 1e-9);
    EXPECT_EQ(stats.overlap_efficiency(), 0);
    EXPECT_EQ(stats.feed_efficiency(), 0);
    EXPECT_EQ(stats.hidden_fraction(), 0);
    EXPECT_EQ(stats.bubble.p50, 0);
    EXPECT_EQ(stats.copier.busy + stats.copier.starved + stats.copier.blocked, 0);
    EXPECT_EQ(stats.what_if({.workers = 8}).t_step, 0);
    EXPECT_EQ(stats.bottleneck(),
              "No copy was timed (one in sample_every is): what limits the loop is not known.");
    const std::string table = stats.table();
    EXPECT_NE(table.find("\n  copier     Tx    ?           works ?\n"), std::string::npos) << table;
    EXPECT_EQ(table.find("OE"), std::string::npos) << table;
  });
}

TEST(TimedCopies, WithoutAnyItStaysSo) {
  with_feed({.sample_every = 0}, [](Prefetcher& feed) {
    consume(feed, 100);
    EXPECT_EQ(feed.stats().sampled_steps, 99U);
    EXPECT_FALSE(feed.stats().is_measured());
  });
}

TEST(TimedCopies, AfterTheFirstTheLinkLimits) {
  with_feed({}, [](Prefetcher& feed) {
    consume(feed, 100);
    const Stats stats = feed.stats();
    EXPECT_GT(stats.timed_copies, 0U);
    EXPECT_NEAR(stats.t_x, kCopy, 1e-9);
    EXPECT_NEAR(stats.overlap_efficiency(), 1, 1e-6);
    EXPECT_EQ(stats.what_if({}).limit, Limit::kLink);
    EXPECT_NEAR(stats.copier.busy, 1, 1e-6);
    // Of the steps before it, too; taken for ones of no copy, they would have 9 ms.
    EXPECT_NEAR(stats.bubble.p99, 0, 1e-9);
  });
}

// Looked at once, at the end: what the copies took is known then, and was not while the loop ran.
TEST(TimedCopies, TheBubbleIsOfAllSteps) {
  with_feed(
      {},
      [](Prefetcher& feed) {
        consume(feed, 60);
        const Stats stats = feed.stats();
        EXPECT_NEAR(stats.t_step, 40e-3, 1e-9);
        EXPECT_NEAR(stats.overlap_efficiency(), 0.25, 1e-6);
        EXPECT_NEAR(stats.bubble.p50, 30e-3, 1e-9);
        EXPECT_NEAR(stats.bubble.p99, 30e-3, 1e-9);
      },
      40ms);
}

// A reset forgets the copies, too.
TEST(TimedCopies, AfterAResetTheyAreNotKnown) {
  with_feed({}, [](Prefetcher& feed) {
    consume(feed, 100);
    feed.reset_stats();
    consume(feed, 1);
    EXPECT_EQ(feed.stats().timed_copies, 0U);
  });
}

TEST(TimedCopies, AStretchWithoutOneHasThoseOfTheOthers) {
  in_virtual_time([&] {
    const gpu::Device device = gpu::open("host");
    StatsCollector stats(device, {.sample_every = 2});
    StatsCollector::Window window;
    const auto copy = [&](Duration time) {
      BatchRecord first;
      BatchRecord second;
      while (first.part != StepPart::kFirst) stats.copy_begins(first);
      stats.copy_begins(second);
      const gpu::Stream stream(device);
      first.mark(Mark::kCopyEnds, stream);
      second.mark(Mark::kQueued, stream);
      second.mark(Mark::kCopyBegins, stream);
      stream.launch_host([] {}, time);
      second.mark(Mark::kCopyEnds, stream);
      stream.sync();
      stats.given_back(first);
      stats.given_back(second);
    };
    const auto steps = [&](int count) {
      for (int i = 0; i < count; ++i) {
        sleep_for(20ms);
        BatchRecord batch{{}, {.busy = 5ms, .step_end = now(), .pass = PassId{1}}};
        stats.step_ended(batch);
      }
    };
    steps(3);
    EXPECT_FALSE(stats.window(window, 1).is_measured());
    copy(10ms);
    steps(3);
    EXPECT_DOUBLE_EQ(stats.window(window, 1).t_x, kCopy);
    steps(3);  // in which no copy is timed
    Stats now = stats.window(window, 1);
    EXPECT_EQ(now.sampled_steps, 3U);
    EXPECT_DOUBLE_EQ(now.t_x, kCopy);
    stats.set_shape(2, 2, 2, 3);  // of copies, those before it are known still
    steps(4);
    now = stats.window(window, 1);
    EXPECT_EQ(now.sampled_steps, 3U);
    EXPECT_DOUBLE_EQ(now.t_x, kCopy);
    copy(4ms);
    steps(1);
    EXPECT_DOUBLE_EQ(stats.window(window, 1).t_x, 4e-3);
    stats.reset();
    steps(2);
    EXPECT_EQ(stats.window(window, 1).timed_copies, 0U);
  });
}

// The link limits, so more workers or slots would change nothing; as long as it does not know that,
// it does nothing.
TEST(TimedCopies, AutotuneWaitsForThem) {
  for (const std::size_t every : {9U, 16U, 64U}) {
    with_feed({.autotune = Autotune{.every = every}}, [](Prefetcher& feed) {
      consume(feed, 500);
      for (const Decision& one : feed.stats().decisions) {
        ADD_FAILURE() << one.what << ": " << one.from << " to " << one.to << ", " << one.why;
      }
    });
  }
}

}  // namespace timed_copies_test
}  // namespace leat::feeder
