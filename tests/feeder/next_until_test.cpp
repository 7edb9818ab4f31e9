// next_until(): a wait for a batch that gives up at a deadline, and goes on with the next call.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/function.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/child.h"
#include "tests/support/plain_threads.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace next_until_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::kPlaces;
using support::NumbersView;
using support::on_plain_threads;
using support::place_title;

const gpu::HostModel kByteANanosecond = {.h2d_bandwidth = 1e9};

// A batch of 4 of these is read in 400 ns.
const support::NumbersOptions kSlow = {.size = 40, .read_time = 100ns};

class NextUntil : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, NextUntil, testing::ValuesIn(kPlaces), place_title);

// The batches up to the end of the epoch.
Batches rest_in_slices(Prefetcher& feed, Duration slice) {
  Batches batches;
  std::optional<Lease> batch;
  for (;;) {
    const ChannelStatus status = feed.next_until(batch, from_now(slice));
    EXPECT_EQ(status == ChannelStatus::ok, batch.has_value());
    if (status == ChannelStatus::closed) return batches;
    if (status == ChannelStatus::ok) batches.push_back(NumbersView(*batch).samples());
  }
}

// Order.

TEST_P(NextUntil, ReturnsTheBatchesOfTheEpochThatWasStartedAndThenThoseOfTheNext) {
  in_place([] {
    NumbersFeed feed({.size = 22, .on_read = uneven_reads()}, {.batch_size = 4, .workers = 3});
    for (const std::uint64_t epoch : {0U, 5U, 2U}) {
      feed.start(epoch);
      EXPECT_EQ(rest_in_slices(feed, 1h), feed.want_epoch(epoch));
      EXPECT_EQ(rest_in_slices(feed, 50us), feed.want_epoch(epoch + 1));
      EXPECT_EQ(rest_of(feed), feed.want_epoch(epoch + 2));
    }
    for (std::uint64_t epoch = 7; epoch < 12; ++epoch) {  // each is left early
      feed.start(epoch);
      std::optional<Lease> batch;
      EXPECT_EQ(feed.next_until(batch, from_now(1h)), ChannelStatus::ok);
      EXPECT_EQ(batch->epoch(), epoch);
      EXPECT_EQ(NumbersView(*batch).samples(), feed.want(epoch, 0));
    }
  });
}

TEST_P(NextUntil, BindsTheStream) {
  in_place([] {
    NumbersFeed feed({.size = 40});
    const gpu::Device other = gpu::open("host:1");
    std::optional<Lease> batch;
    feed.start(0);
    for (std::uint64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(feed.next_until(batch, from_now(1h), feed.stream), ChannelStatus::ok);
      feed.launch_check(*batch);
    }
    EXPECT_THROW(static_cast<void>(feed.next_until(batch, from_now(1h), gpu::Stream(other))),
                 std::invalid_argument);
    ASSERT_TRUE(batch.has_value());
    EXPECT_EQ(batch->index(), 5U);
    batch.reset();
    feed.stream.sync();
  });
}

TEST_P(NextUntil, ReleasesFirstWhatTheVariableHolds) {
  in_place([] {
    NumbersFeed feed({.size = 40});  // of which one may be held at a time
    std::optional<Lease> batch;
    for (std::uint64_t i = 0; i < 10; ++i) {
      EXPECT_EQ(feed.next_until(batch, from_now(1h)), ChannelStatus::ok);
      EXPECT_EQ(batch->index(), i);
    }
    EXPECT_EQ(feed.next_until(batch, from_now(1h)), ChannelStatus::closed);
    EXPECT_FALSE(batch.has_value());
    EXPECT_EQ(feed.stats().batches, 10U);
  });
}

// The README's example.
TEST_P(NextUntil, LetsALoopLookUpNowAndThen) {
  in_place([] {
    NumbersFeed feed({.size = 40});
    const gpu::Stream& stream = feed.stream;
    std::uint64_t steps = 0;
    const auto step = [&](Lease& one) {
      feed.launch_check(one);
      ++steps;
    };
    const auto is_interrupted = [&] { return steps == 7; };
    // [slices]
    feed.start(0);
    std::optional<Lease> batch;
    while (!is_interrupted()) {
      const ChannelStatus status = feed.next_until(batch, leat::from_now(20ms), stream);
      if (status == ChannelStatus::closed) break;  // the end of the epoch
      if (status == ChannelStatus::ok) step(*batch);
    }
    // [/slices]
    EXPECT_EQ(steps, 7U);
    stream.sync();
  });
}

// Time.

TEST(NextUntilItsDeadline, WaitsExactlySoLong) {
  in_virtual_time([] {
    NumbersFeed feed(kSlow, {.batch_size = 4}, kByteANanosecond);
    const TimePoint start = now();
    const auto since_start = [&] { return now() - start; };
    std::optional<Lease> batch;
    EXPECT_EQ(feed.next_until(batch, start + 150ns), ChannelStatus::timed_out);
    EXPECT_EQ(since_start(), 150ns);
    EXPECT_EQ(feed.next_until(batch, start + 399ns), ChannelStatus::timed_out);
    EXPECT_EQ(since_start(), 399ns);
    EXPECT_EQ(feed.next_until(batch, TimePoint::max()), ChannelStatus::ok);
    EXPECT_EQ(since_start(), 400ns);
    EXPECT_EQ(feed.next_until(batch, start + 1h), ChannelStatus::ok);
    EXPECT_EQ(since_start(), 800ns);
  });
}

TEST(NextUntilItsDeadline, ReturnsABatchThatIsStagedAlsoLater) {
  in_virtual_time([] {
    NumbersFeed feed(kSlow, {.batch_size = 4});
    std::optional<Lease> batch;
    for (const TimePoint past : {now() - 1s, now(), TimePoint::min()}) {
      const TimePoint before = now();
      EXPECT_EQ(feed.next_until(batch, past), ChannelStatus::timed_out);
      EXPECT_FALSE(batch.has_value());
      sleep_for(401ns);  // it is staged at the 400th
      EXPECT_EQ(feed.next_until(batch, past), ChannelStatus::ok);
      EXPECT_EQ(now() - before, 401ns);
    }
  });
}

// Requests that have timed out.

TEST_P(NextUntil, WithMaxLeasesLeasesHeldIsAMistakeAsWithNext) {
  in_place([] {
    NumbersFeed feed({.size = 64}, {.batch_size = 4, .max_leases = 2});
    std::optional<Lease> first = feed.next();
    std::optional<Lease> second;
    EXPECT_EQ(feed.next_until(second, from_now(1h)), ChannelStatus::ok);
    std::optional<Lease> third;
    for (int attempt = 0; attempt < 2; ++attempt) {
      expect_throws<std::logic_error>(
          [&] { static_cast<void>(feed.next_until(third, from_now(1h))); },
          {"2 leases are held, which is max_leases"});
      EXPECT_FALSE(third.has_value());
    }
    first.reset();
    EXPECT_EQ(feed.next_until(third, from_now(1h)), ChannelStatus::ok);
    EXPECT_EQ(third->index(), 2U);
  });
}

// Its right to a lease is not lost, though there is only one.
TEST(NextUntilTimedOut, IsContinuedOrReplacedByWhateverIsAskedNext) {
  in_virtual_time([] {
    NumbersFeed feed(kSlow, {.batch_size = 4});
    std::optional<Lease> batch;
    const auto time_out = [&] {
      EXPECT_EQ(feed.next_until(batch, from_now(10ns)), ChannelStatus::timed_out);
    };
    for (std::uint64_t epoch = 0; epoch < 12; epoch += 6) {
      feed.start(epoch);
      time_out();
      EXPECT_EQ(rest_of(feed), feed.want_epoch(epoch));
      time_out();  // of the epoch that follows
      EXPECT_EQ(epoch_of(feed, epoch + 2), feed.want_epoch(epoch + 2));
      time_out();
      feed.start(epoch + 4);
      EXPECT_EQ(rest_in_slices(feed, 10ns), feed.want_epoch(epoch + 4));
      time_out();
      const Receiver<Lease> batches = feed.receiver(epoch + 5);
      EXPECT_EQ(batches.recv()->epoch(), epoch + 5);
      EXPECT_THROW(time_out(), std::logic_error);  // while a receiver is open
      feed.start(epoch + 6);                       // ends it
      EXPECT_THROW(static_cast<void>(batches.recv()), Error);
      time_out();
    }
    EXPECT_THROW(feed.start(~std::uint64_t{0}), std::invalid_argument);
    EXPECT_EQ(feed.next()->epoch(), 12U);  // goes on
    time_out();
  });  // and is destroyed
}

TEST(NextUntilTimedOut, SharedEpochsOnlyGoForward) {
  in_virtual_time([] {
    NumbersFeed feed(kSlow, {.batch_size = 4, .sharing = Sharing::kDynamic});
    std::optional<Lease> batch;
    feed.start(2);
    EXPECT_EQ(feed.next_until(batch, from_now(10ns)), ChannelStatus::timed_out);
    EXPECT_THROW(feed.start(2), std::logic_error);
    EXPECT_THROW(feed.start(1), std::logic_error);
    EXPECT_EQ(rest_in_slices(feed, 10ns), feed.want_epoch(2));
    feed.start(3);
    EXPECT_EQ(rest_in_slices(feed, 10ns), feed.want_epoch(3));
  });
}

TEST(NextUntilTimedOut, IsToldInAForkedChild) {
  const auto gate = std::make_shared<std::promise<void>>();
  const std::shared_future<void> opened = gate->get_future().share();
  NumbersFeed feed({.size = 40, .on_read = [&](std::uint64_t) { opened.wait(); }});
  std::optional<Lease> batch;
  EXPECT_EQ(feed.next_until(batch, now()), ChannelStatus::timed_out);
  EXPECT_EQ(support::in_child([&]() -> std::string {
              const std::string text = support::text_thrown_by<std::logic_error>(
                  [&] { static_cast<void>(feed.next_until(batch, from_now(1h))); });
              return text.find("a Prefetcher of process ") == std::string::npos ? text : "";
            }),
            "");
  gate->set_value();
  EXPECT_EQ(feed.next_until(batch, from_now(1h)), ChannelStatus::ok);
}

// Ends.

TEST_P(NextUntil, GivesTheBatchesBeforeAFailureThenTheFailureOnce) {
  in_place([] {
    const auto on_read = failing_reads([](std::uint64_t sample) { return sample == 9; }, "no disk");
    NumbersFeed feed({.size = 40, .on_read = on_read},
                     {.batch_size = 4, .order = Order::kSequential});
    std::optional<Lease> batch;
    for (std::uint64_t i = 0; i < 2; ++i) {
      EXPECT_EQ(feed.next_until(batch, from_now(1h)), ChannelStatus::ok);
      EXPECT_EQ(batch->index(), i);
    }
    const auto ask = [&] { static_cast<void>(feed.next_until(batch, from_now(1h))); };
    expect_throws<Error>(ask, {"sample 9", "batch 2", "no disk"});
    expect_throws<Error>(ask, {"stopped", "no disk"});
    EXPECT_FALSE(batch.has_value());
  });
}

// The wait ends though no batch can be read.
TEST(NextUntilItsEnd, IsAStopFromAnotherThread) {
  for (const bool on_fiber : {false, true}) {
    const auto wait_and_stop = [] {
      std::promise<void> go_on;
      const std::shared_future<void> may_go_on = go_on.get_future().share();
      const FunctionDataset data(
          "slow", {{"number", DType::kInt64, {}}}, 16,
          [&](std::uint64_t, Sample&) { may_go_on.wait(); }, Blocking::kOften);
      Prefetcher feed(data, gpu::open("host"), {.batch_size = 4});
      std::atomic<bool> is_asking = false;
      on_plain_threads(
          1,
          [&](int) {
            while (!is_asking) std::this_thread::yield();
            feed.stop();
          },
          [&] {
            std::optional<Lease> batch;
            EXPECT_EQ(feed.next_until(batch, from_now(1ms)), ChannelStatus::timed_out);
            is_asking = true;
            const auto ask = [&] { static_cast<void>(feed.next_until(batch, TimePoint::max())); };
            expect_throws<Error>(ask, {"the prefetcher was stopped"});
            expect_throws<Error>(ask, {"the prefetcher was stopped"});
          });
      go_on.set_value();  // before the feed ends
    };
    if (on_fiber) {
      run(wait_and_stop, {.workers = 1});
    } else {
      wait_and_stop();
    }
  }
}

TEST(NextUntilOnAFiber, IsCancelledAndTheFeedGoesOn) {
  for (const Duration asked_before : {0ns, 10ns}) {
    in_virtual_time([&] {
      NumbersFeed feed(kSlow, {.batch_size = 4});
      std::optional<Lease> batch;
      if (asked_before > 0ns) {
        EXPECT_EQ(feed.next_until(batch, from_now(asked_before)), ChannelStatus::timed_out);
      }
      std::atomic<bool> is_cancelled = false;
      TaskGroup group;
      group.go([&] {
        try {
          static_cast<void>(feed.next_until(batch, from_now(300ns)));
        } catch (const Cancelled&) {
          is_cancelled = true;
          throw;
        }
      });
      sleep_for(100ns);
      group.stop();
      group.wait();
      EXPECT_TRUE(is_cancelled);
      EXPECT_EQ(now().time_since_epoch(), asked_before + 100ns);
      EXPECT_EQ(rest_of(feed), feed.want_epoch(0));
    });
  }
}

}  // namespace next_until_test
}  // namespace leat::feeder
