// Lease::await_until(): a wait for the copy that gives up at a deadline. What it counts as in the
// stats: stats/copy_waits_test.cpp.
#include <gtest/gtest.h>

#include <stdexcept>

#include "leat/csp/scheduler.h"
#include "leat/feeder/lease.h"
#include "leat/feeder/prefetcher.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/places.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace await_until_test {

using namespace std::chrono_literals;
using support::in_virtual_time;

TEST(LeaseAwaitUntil, EndsAtItsDeadlineOrWithTheCopy) {
  for (const bool on_stream : {false, true}) {
    in_virtual_time([&] {
      NumbersFeed feed({.size = 8, .pattern_bytes = 92}, {.batch_size = 4}, {.h2d_bandwidth = 1e9});
      const TimePoint start = now();
      Lease batch = *feed.next();
      if (on_stream) batch.on(feed.stream);
      EXPECT_FALSE(batch.await_until(start + 150ns));
      EXPECT_EQ(now() - start, 150ns);
      EXPECT_FALSE(batch.await_until(start));
      EXPECT_FALSE(batch.await_until(TimePoint::min()));
      EXPECT_EQ(now() - start, 150ns);
      EXPECT_TRUE(batch.await_until(start + 1h));
      EXPECT_EQ(now() - start, 400ns);
      feed.check(batch);
      EXPECT_TRUE(batch.await_until(start));
      EXPECT_EQ(now() - start, 400ns);
      batch.release();
      EXPECT_THROW(static_cast<void>(batch.await_until(now())), std::logic_error);
    });
  }
}

class LeaseInSlices : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, LeaseInSlices, testing::ValuesIn(support::kPlaces),
                         support::place_title);

TEST_P(LeaseInSlices, IsAwaited) {
  in_place([] {
    NumbersFeed feed({.size = 40, .pattern_bytes = 92}, {.batch_size = 4}, {.h2d_bandwidth = 1e6});
    for (Lease& batch : feed.epoch(0)) {  // a copy takes 400 us
      while (!batch.await_until(from_now(30us))) {
      }
      feed.check(batch);
    }
  });
}

}  // namespace await_until_test
}  // namespace leat::feeder
