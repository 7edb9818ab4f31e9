// PrefetcherOptions::read_across_epochs, off: nothing of an epoch is read before it is asked for,
// so each of its batches has what the program changed before.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/function.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace read_across_epochs_test {

using namespace std::chrono_literals;
using support::in_virtual_time;

// Samples whose label the program changes between two epochs.
struct Labels {
  explicit Labels(std::uint64_t size, Duration read_time = 1us)
      : data("labels", {{"label", DType::kInt64, {}}, {"sample", DType::kInt64, {}}}, size,
             [this, read_time](std::uint64_t index, Sample& out) {
               ++reads;
               out.as<std::int64_t>(0)[0] = label;
               out.as<std::int64_t>(1)[0] = static_cast<std::int64_t>(index);
               sleep_for(read_time);
             }) {}
  std::atomic<std::int64_t> label{0};
  std::atomic<std::uint64_t> reads{0};
  const FunctionDataset data;
};

// Each way to ask for an epoch. Returns when its first batch came, and how many there were.
struct Came {
  std::optional<Duration> first;
  std::size_t batches = 0;

  void take(Lease& batch, std::int64_t label) {
    if (!first.has_value()) first = now().time_since_epoch();
    ++batches;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      EXPECT_EQ(batch["label"].data<std::int64_t>()[i], label) << "batch " << batch.index();
    }
  }
};
struct Way {
  const char* name;
  void (*loop)(Prefetcher& feed, std::uint64_t epoch, Came& came, std::int64_t label);
};
const Way kWays[] = {
    {"epoch()",
     [](Prefetcher& feed, std::uint64_t epoch, Came& came, std::int64_t label) {
       for (Lease& batch : feed.epoch(epoch)) came.take(batch, label);
     }},
    {"next()",
     [](Prefetcher& feed, std::uint64_t, Came& came, std::int64_t label) {
       while (std::optional<Lease> batch = feed.next()) came.take(*batch, label);
     }},
    {"next_until()",
     [](Prefetcher& feed, std::uint64_t, Came& came, std::int64_t label) {
       std::optional<Lease> batch;
       for (ChannelStatus status{}; status != ChannelStatus::closed;) {
         status = feed.next_until(batch, now() + 700ns);
         if (status == ChannelStatus::ok) came.take(*batch, label);
       }
     }},
    {"start()",
     [](Prefetcher& feed, std::uint64_t epoch, Came& came, std::int64_t label) {
       feed.start(epoch);
       while (std::optional<Lease> batch = feed.next()) came.take(*batch, label);
     }},
    {"receiver()",
     [](Prefetcher& feed, std::uint64_t epoch, Came& came, std::int64_t label) {
       for (Lease& batch : feed.receiver(epoch)) came.take(batch, label);
     }},
    {"epoch() after a break",
     [](Prefetcher& feed, std::uint64_t epoch, Came& came, std::int64_t label) {
       for (Lease& batch : feed.epoch(epoch)) {
         came.take(batch, label);
         if (epoch % 2 == 0 && batch.index() == 2) return;
       }
     }},
};

TEST(ReadAcrossEpochs, OffNobodyReadsAnEpochBeforeItIsAskedFor) {
  constexpr std::uint64_t kSamples = 40;  // in batches of 4: read in 4 us
  for (const Way& way : kWays) {
    for (const Sharing sharing : {Sharing::kStatic, Sharing::kDynamic}) {
      for (const Delivery delivery : {Delivery::kInOrder, Delivery::kAsCompleted}) {
        SCOPED_TRACE(testing::Message() << way.name << ", sharing " << static_cast<int>(sharing)
                                        << ", delivery " << static_cast<int>(delivery));
        in_virtual_time([&] {
          Labels labels(kSamples);
          Prefetcher feed(labels.data, gpu::open("host"),
                          {.batch_size = 4,
                           .workers = 2,
                           .delivery = delivery,
                           .sharing = sharing,
                           .read_across_epochs = false});
          const bool breaks = std::string(way.name).ends_with("break");
          for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
            sleep_for(1ms);  // all the time that reading ahead would need
            if (!breaks) {
              EXPECT_EQ(labels.reads.load(), epoch * kSamples);
            }
            labels.label = static_cast<std::int64_t>(epoch);
            const Duration asked = now().time_since_epoch();
            Came came;
            way.loop(feed, epoch, came, labels.label.load());
            EXPECT_EQ(came.batches, breaks && epoch % 2 == 0 ? 3U : 10U);
            EXPECT_EQ(*came.first, asked + 4us);
          }
        });
      }
    }
  }
}

// A rank asks for its own part of an epoch; with dynamic sharing, the first to ask does for all.
TEST(ReadAcrossEpochs, OffEachRankAsksForItself) {
  for (const bool is_shared : {false, true}) {
    in_virtual_time([&] {
      Labels labels(32);
      Prefetcher feed(labels.data, open_devices(2),
                      {.batch_size = 8,
                       .sharing = is_shared ? Sharing::kDynamic : Sharing::kStatic,
                       .read_across_epochs = false});
      std::size_t samples = 0;
      for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
        for (std::size_t rank = 0; rank < 2; ++rank) {
          sleep_for(1ms);
          const bool is_asked_for = rank == 1 && is_shared;
          EXPECT_EQ(labels.reads.load() > samples, is_asked_for) << "rank " << rank;
          samples += count_samples(feed.rank(rank).epoch(epoch));
        }
        EXPECT_EQ(samples, 32 * (epoch + 1));
      }
    });
  }
}

// One life: ranks that go through epochs, leave some early, and resume; between two epochs the
// label changes.
void live(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::size_t ranks = random() % 3 + 1;
  PrefetcherOptions options = {
      .batch_size = random() % 6 + 1,
      .prefetch_depth = random() % 3 + 1,
      .workers = random() % 3 + 1,
      .pinned_slots = random() % 4 == 0 ? std::size_t{2} : 0,
      .delivery = random() % 2 == 0 ? Delivery::kInOrder : Delivery::kAsCompleted,
      .sharing = random() % 2 == 0 ? Sharing::kDynamic : Sharing::kStatic,
      .read_across_epochs = false};
  if (random() % 3 == 0) options.autotune = Autotune{.every = 1};
  const bool is_shared = options.sharing == Sharing::kDynamic;
  Labels labels(random() % 40, 100ns);
  auto feed = std::make_unique<Prefetcher>(labels.data, open_devices(ranks), options);
  std::uint64_t epoch = 0;
  std::set<std::uint64_t> rests;  // epochs that were resumed
  for (int pass = 0; pass < 6; ++pass) {
    std::vector<std::uint64_t> breaks_after(ranks, 100);  // batches
    const bool is_left = random() % 3 == 0;
    for (std::uint64_t& after : breaks_after) after = is_left ? random() % 4 : 100;
    std::vector<std::atomic<int>> got(labels.data.size());  // times, by sample
    TaskGroup group;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      group.go([&, rank, wait = Duration(random() % 2'000)] {
        sleep_for(wait);
        std::uint64_t batches = 0;
        for (Lease& batch : feed->rank(rank).epoch(epoch)) {
          EXPECT_EQ(batch.epoch(), epoch);
          for (std::size_t i = 0; i < batch.size(); ++i) {
            EXPECT_EQ(batch["label"].data<std::int64_t>()[i], labels.label.load());
            ++got[static_cast<std::size_t>(batch["sample"].data<std::int64_t>()[i])];
          }
          if (batches++ == breaks_after[rank]) break;
        }
      });
    }
    group.wait();
    const bool is_whole = rests.erase(epoch) == 0 && !is_left;
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(got[i], 1) << "sample " << i;
      EXPECT_TRUE(got[i] == 1 || !is_whole) << "sample " << i;
    }
    ++labels.label;
    sleep_for(1us);
    epoch += is_shared || random() % 2 == 0 ? random() % 3 + 1 : -(random() % (epoch + 1));
    if (random() % 3 > 0) continue;
    options.resume = feed->state();
    feed = std::make_unique<Prefetcher>(labels.data, open_devices(ranks), options);
    const State state = State::parse(*options.resume);
    const std::uint64_t next = state.next_epoch();
    rests.clear();
    for (const EpochReleases& one : state.epochs) rests.insert(one.epoch);
    rests.erase(next);
    for (std::size_t rank = 0; rank < ranks; ++rank) {  // what was left of it
      for (Lease& batch : feed->rank(rank).epoch(next)) {
        for (std::size_t i = 0; i < batch.size(); ++i) {
          EXPECT_EQ(batch["label"].data<std::int64_t>()[i], labels.label.load());
        }
      }
    }
    ++labels.label;
    epoch = next + 1;
  }
}

TEST(ReadAcrossEpochs, OffEveryBatchHasWhatWasChangedBeforeItsEpoch) {
  const auto lives = static_cast<std::uint64_t>(support::rounds(80));
  for (std::uint64_t seed = 0; seed < lives; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    in_virtual_time({.workers = seed % 10 == 0 ? 2 : 1, .seed = seed}, [&] { live(seed); });
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace read_across_epochs_test
}  // namespace leat::feeder
