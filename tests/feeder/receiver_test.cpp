// Batches as a channel: what comes, who has credit for it, and how it ends; in every place that a
// prefetcher may run in.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/ticker.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/deadlock_report.h"
#include "tests/support/plain_threads.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace receiver_test {

using namespace std::chrono_literals;
using support::kPlaces;
using support::launch_check;
using support::Numbers;
using support::NumbersView;
using support::on_plain_threads;
using support::Place;
using support::place_title;

class FeedReceiver : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, FeedReceiver, testing::ValuesIn(kPlaces), place_title);

Batches received(const Receiver<Lease>& batches) {
  Batches got;
  for (Lease& batch : batches) got.push_back(NumbersView(batch).samples());
  return got;
}

// Of the next receive.
void expect_error(const Receiver<Lease>& batches, std::initializer_list<std::string_view> says) {
  expect_throws<Error>([&] { static_cast<void>(batches.recv()); }, says);
}

TEST_P(FeedReceiver, GetsWhatALoopGetsEpochAfterEpoch) {
  in_place([] {
    const Numbers data({.size = 22, .on_read = uneven_reads()});
    for (const std::size_t workers : {1U, 3U}) {
      for (const std::size_t max_leases : {1U, 3U}) {
        const PrefetcherOptions options = {
            .batch_size = 4, .max_leases = max_leases, .workers = workers, .seed = 5};
        Prefetcher feed(data, gpu::open("host"), options);
        for (const std::uint64_t epoch : {0U, 1U, 5U}) {
          const Receiver<Lease> batches = feed.receiver(epoch);
          EXPECT_EQ(received(batches), expected_epoch(data, options, epoch));
          EXPECT_FALSE(batches.recv().has_value());
        }
        EXPECT_EQ(rest_of(feed), expected_epoch(data, options, 6));
        EXPECT_EQ(epoch_of(feed, 6), expected_epoch(data, options, 6));
        EXPECT_EQ(received(feed.receiver(7)), expected_epoch(data, options, 7));
      }
    }
  });
}

TEST_P(FeedReceiver, OfAnEmptyEpochIsClosed) {
  in_place([] {
    NumbersFeed feed({.size = 0});
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_FALSE(feed.receiver(epoch).recv().has_value());
    }
  });
}

TEST_P(FeedReceiver, RethrowsAFailureAfterTheBatchesBeforeIt) {
  in_place([] {
    const auto on_read = [](std::uint64_t sample) {
      uneven_reads()(sample);
      if (sample == 13) throw std::range_error("the disk is on fire");
    };
    for (const std::size_t max_leases : {1U, 2U}) {
      NumbersFeed feed(
          {.size = 22, .on_read = on_read},
          {.batch_size = 4, .max_leases = max_leases, .workers = 3, .order = Order::kSequential});
      const Receiver<Lease> batches = feed.receiver(0);
      if (GetParam() != Place::kPlainThread) sleep_for(1h);  // the failure comes first
      for (std::uint64_t i = 0; i < 3; ++i) {
        const std::optional<Lease> batch = batches.recv();
        ASSERT_TRUE(batch.has_value());
        EXPECT_EQ(batch->index(), i);
      }
      for (int attempt = 0; attempt < 3; ++attempt) {
        expect_error(batches, {"reader: sample 13 of dataset \"numbers\"", "the disk is on fire"});
      }
      expect_error(feed.receiver(1), {"earlier error", "the disk is on fire"});
      EXPECT_THROW(static_cast<void>(feed.next()), Error);
      EXPECT_THROW(epoch_of(feed, 2), Error);
    }
  });
}

// Its stream is bound by the lease's first use: here by that of its tensors.
TEST_P(FeedReceiver, BindsItsStream) {
  in_place([] {
    NumbersFeed feed({.size = 64}, {.batch_size = 4, .max_leases = 2}, {.copy_latency = 1ms});
    std::atomic<int> right{0};
    for (Lease& batch : feed.receiver(0, feed.stream)) {
      const TimePoint before = now();
      const NumbersView view(batch);
      if (GetParam() != Place::kPlainThread) {
        EXPECT_EQ(now(), before) << "the feed.stream waits, not its user";
      }
      feed.stream.launch_host([&right, view, want = feed.want(batch)] {
        right += static_cast<int>(view.samples() == want);
      });
    }
    feed.stream.sync();
    EXPECT_EQ(right, 16);
    const gpu::Device other = gpu::open("host:1");
    EXPECT_THROW(static_cast<void>(feed.receiver(1, gpu::Stream(other))), std::invalid_argument);
  });
}

// Credit.

TEST_P(FeedReceiver, WaitsWhereAllLeasesAreHeldUntilAnyThreadReleasesOne) {
  in_place([] {
    NumbersFeed feed({.size = 64}, {.batch_size = 4, .max_leases = 2});
    const Receiver<Lease> batches = feed.receiver(0);
    for (std::uint64_t round = 0; round < 5; ++round) {
      std::optional<Lease> first = batches.recv();
      std::optional<Lease> second = batches.recv();
      ASSERT_TRUE(first.has_value() && second.has_value());
      std::optional<Lease> third;
      if (GetParam() != Place::kPlainThread) sleep_for(1h);  // all fibers wait
      EXPECT_EQ(batches.try_recv(third), ChannelStatus::would_block);
      on_plain_threads(
          1, [&](int) { first->release(); }, [&] { third = batches.recv(); });
      ASSERT_TRUE(third.has_value());
      EXPECT_EQ(third->index(), 3 * round + 2);
    }
    EXPECT_EQ(received(batches).size(), 1U);
  });
}

// The first use of a batch ends the step of the batch before, which another thread may hold.
TEST(FeedReceiverCredit, SeveralThreadsHoldBatchesWhileTheyReceive) {
  NumbersFeed feed({.size = 1200}, {.batch_size = 4, .max_leases = 7, .sample_every = 2});
  const Receiver<Lease> batches = feed.receiver(0);
  const auto use_all = [&](int) {
    const gpu::Stream stream(feed.device);
    std::optional<Lease> held;
    while (std::optional<Lease> batch = batches.recv()) {
      launch_check(stream, batch->on(stream), feed.want(*batch));
      held = std::move(batch);
    }
    stream.sync();
  };
  on_plain_threads(3, use_all, [] {});
  EXPECT_EQ(feed.stats().batches, 300U);
  EXPECT_GT(feed.stats().sampled_steps, 0U);
}

TEST(FeedReceiverCredit, WhoHoldsAllLeasesAndReceivesIsInADeadlock) {
  const std::string report = support::report_of(
      [] {
        NumbersFeed feed({.size = 64});
        const Receiver<Lease> batches = feed.receiver(0);
        const std::optional<Lease> held = batches.recv();
        static_cast<void>(batches.recv());
      },
      {.workers = 1, .deadlock_after = Duration::zero()});
  expect_contains(report, {"recv on channel \"batches\"", "\"forwarder\"", "\"leases to be had\""});
}

// Prefetcher::stop() tells who waits for it, though no lease is released.
TEST_P(FeedReceiver, WaitsForALeaseUntilThePrefetcherIsStopped) {
  in_place([] {
    NumbersFeed feed({.size = 64});
    const Receiver<Lease> batches = feed.receiver(0);
    const std::optional<Lease> held = batches.recv();
    on_plain_threads(
        1, [&](int) { feed.stop(); },
        [&] { expect_error(batches, {"leat: the prefetcher was stopped"}); });
  });
}

// One consumer.

TEST_P(FeedReceiver, EndsWhenTheFeedBeginsAnotherPass) {
  in_place([] {
    NumbersFeed feed({.size = 64}, {.batch_size = 4, .max_leases = 2});
    const Receiver<Lease> first = feed.receiver(0);
    EXPECT_EQ(first.recv()->index(), 0U);
    const Receiver<Lease> second = feed.receiver(0);
    expect_error(first, {"receiver of epoch 0", "another pass"});
    EXPECT_EQ(second.recv()->index(), 0U);
    EXPECT_EQ(epoch_of(feed, 3), feed.want_epoch(3));
    expect_error(second, {"receiver of epoch 0", "another pass"});
  });
}

TEST_P(FeedReceiver, NextWhileOneIsOpenIsAMistake) {
  in_place([] {
    NumbersFeed feed({.size = 64});
    Epoch loop = feed.epoch(0);
    auto batch = loop.begin();
    const Receiver<Lease> batches = feed.receiver(1);
    const auto expect_mistake = [](const auto& f) {
      expect_throws<std::logic_error>(f, {"next() while a receiver of epoch 1 is open"});
    };
    expect_mistake([&] { ++batch; });
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_EQ(batches.recv()->epoch(), 1U);
      expect_mistake([&] { static_cast<void>(feed.next()); });
    }
    EXPECT_EQ(received(batches).size(), 14U);
    EXPECT_EQ(feed.next()->epoch(), 2U);
  });
}

// No slot is lost with what was offered to nobody.
TEST_P(FeedReceiver, MayBeDroppedAnywhere) {
  in_place([] {
    const Numbers data({.size = 40, .on_read = uneven_reads()});
    for (const std::size_t max_leases : {1U, 3U}) {
      const PrefetcherOptions options = {
          .batch_size = 4, .max_leases = max_leases, .workers = 2, .seed = 3};
      Prefetcher feed(data, gpu::open("host"), options);
      for (std::uint64_t pass = 0; pass < 40; ++pass) {
        const Receiver<Lease> batches = feed.receiver(pass % 3);
        for (std::uint64_t i = 0; i < pass % 7; ++i) {
          EXPECT_EQ(batches.recv()->index(), i);
          if (pass % 2 == 0) yield();
        }
      }
      EXPECT_EQ(received(feed.receiver(2)), expected_epoch(data, options, 2));
    }
  });
}

TEST_P(FeedReceiver, ALeaseThatNobodyReceivesIsNotReleased) {
  in_place([] {
    const Numbers data({.size = 40});
    for (const std::uint64_t taken : {0U, 1U, 4U, 8U}) {
      SCOPED_TRACE(taken);
      PrefetcherOptions options = {.batch_size = 4, .max_leases = 2, .seed = 8};
      Batches got;
      {
        Prefetcher feed(data, gpu::open("host"), options);
        const Receiver<Lease> batches = feed.receiver(1);
        while (got.size() < taken) {
          std::optional<Lease> batch = batches.recv();
          got.push_back(NumbersView(*batch).samples());
        }
        const std::optional<Lease> held = batches.recv();      // so that the pass is not forgotten
        if (GetParam() != Place::kPlainThread) sleep_for(1h);  // the next one is offered by now
        EXPECT_EQ(feed.epoch(7).begin()->epoch(), 7U);
        EXPECT_EQ(feed.stats().batches, taken + 1);  // that of epoch 7
        options.resume = feed.state();
      }
      Prefetcher feed(data, gpu::open("host"), options);
      for (auto& batch : received(feed.receiver(1))) got.push_back(std::move(batch));
      EXPECT_EQ(got, expected_epoch(data, options, 1));
    }
  });
}

TEST_P(FeedReceiver, TellsThatThePrefetcherIsGoneAndLeasesOutliveIt) {
  in_place([] {
    const Numbers data({.size = 64});
    const PrefetcherOptions options = {.batch_size = 4, .max_leases = 3};
    std::optional<Prefetcher> feed;
    feed.emplace(data, gpu::open("host"), options);
    const Receiver<Lease> batches = feed->receiver(0);
    std::optional<Lease> held = batches.recv();
    feed.reset();
    for (int attempt = 0; attempt < 2; ++attempt) {
      expect_error(batches, {"the prefetcher was stopped"});
    }
    EXPECT_EQ(NumbersView(*held).samples(), support::expected_samples(data, options, *held));
  });
}

// Others who wait.

// A consumer in a run of its own: his scheduler does not know who will send.
TEST(FeedReceiverPlace, MayBeReceivedFromOnAnotherScheduler) {
  const Channel<int> opened(0, "opened");
  NumbersFeed feed({.size = 64, .on_read = [opened](std::uint64_t) {
                      static_cast<void>(opened.recv());  // once somebody waits for it
                    }});
  run(
      [&] {
        const Receiver<Lease> batches = feed.receiver(0);
        go([&] { opened.close(); });  // runs when this one waits
        EXPECT_EQ(received(batches), feed.want_epoch(0));
        EXPECT_EQ(received(feed.receiver(1)), feed.want_epoch(1));
        static_cast<void>(feed.receiver(2));
        EXPECT_EQ(epoch_of(feed, 3), feed.want_epoch(3));
      },
      {.workers = 1});
}

TEST_P(FeedReceiver, TwoRanksAreSelectedOverByOneFiber) {
  in_place([] {
    for (const Sharing sharing : {Sharing::kStatic, Sharing::kDynamic}) {
      const Numbers data({.size = 70, .on_read = uneven_reads()});
      const PrefetcherOptions options = {.batch_size = 4, .workers = 3, .sharing = sharing};
      Prefetcher feeds(data, open_devices(2), options);
      EXPECT_THROW(static_cast<void>(feeds.receiver(0)), std::logic_error);
      for (const std::uint64_t epoch : {0U, 1U}) {
        std::vector<std::uint64_t> got;
        std::size_t open = 2;
        std::vector<Receiver<Lease>> ranks = {feeds.rank(0).receiver(epoch),
                                              feeds.rank(1).receiver(epoch)};
        const auto take = [&](std::size_t rank) {
          return [&, rank](std::optional<Lease> batch) {
            if (batch.has_value()) {
              EXPECT_EQ(batch->epoch(), epoch);
              for (const std::uint64_t sample : NumbersView(*batch).samples()) {
                got.push_back(sample);
              }
            } else {
              ranks[rank] = {};  // never ready
              --open;
            }
          };
        };
        while (open > 0) select(on_recv(ranks[0], take(0)), on_recv(ranks[1], take(1)));
        std::ranges::sort(got);
        ASSERT_EQ(got.size(), 70U);
        for (std::uint64_t i = 0; i < 70; ++i) EXPECT_EQ(got[i], i);
      }
    }
  });
}

struct Counts {
  std::vector<std::uint64_t> at_ticks;
  std::uint64_t batches = 0;
};

// Batches every 4 ms: 4 samples of 1 ms.
Counts train_and_report() {
  NumbersFeed feed({.size = 40, .read_time = 1ms});
  Counts counts;
  const auto step = [&](Lease& batch) {
    EXPECT_EQ(batch.index(), counts.batches++);
    feed.launch_check(batch);
  };
  const auto report = [&] { counts.at_ticks.push_back(counts.batches); };
  const gpu::Stream& stream = feed.stream;
  // [select]
  const Receiver<Lease> batches = feed.receiver(0, stream);
  const leat::Ticker ticker = leat::tick(10ms);
  for (bool more = true; more;) {
    leat::select(leat::on_recv(batches,
                               [&](std::optional<Lease> batch) {
                                 more = batch.has_value();
                                 if (more) step(*batch);
                               }),
                 leat::on_recv(ticker.ticks(), [&](auto) { report(); }));
  }
  // [/select]
  stream.sync();
  return counts;
}

TEST(FeedReceiverExact, IsSelectedOverBesideATicker) {
  const Duration time = support::in_virtual_time([] {
    const Counts counts = train_and_report();
    EXPECT_EQ(counts.batches, 10U);
    // At 20 ms and at 40 ms there are both, in either order.
    ASSERT_GE(counts.at_ticks.size(), 3U);
    EXPECT_EQ(counts.at_ticks[0], 2U);
    EXPECT_TRUE(counts.at_ticks[1] == 4 || counts.at_ticks[1] == 5) << counts.at_ticks[1];
    EXPECT_EQ(counts.at_ticks[2], 7U);
  });
  EXPECT_EQ(time, 40ms);
}

}  // namespace receiver_test
}  // namespace leat::feeder
