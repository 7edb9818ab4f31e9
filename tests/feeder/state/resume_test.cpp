// Resuming: whatever was released before is not delivered again, and all else is, exactly once, on
// whatever ranks, workers and slots the run goes on with.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/plan/sampler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace resume_test {

using support::in_virtual_time;
using support::kPlaces;
using support::Numbers;
using support::NumbersView;
using support::place_title;
using support::rounds;

class Resume : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, Resume, testing::ValuesIn(kPlaces), place_title);

TEST_P(Resume, ALoopThatStoppedGoesOnBitIdentically) {
  in_place([] {
    const Numbers data({.size = 53, .on_read = uneven_reads()});
    PrefetcherOptions options = {.batch_size = 4, .seed = 9};
    Batches whole;
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      for (auto& batch : expected_epoch(data, options, epoch)) whole.push_back(std::move(batch));
    }
    for (const std::size_t stop : {0U, 1U, 5U, 13U, 14U, 15U, 27U, 40U, 42U}) {
      SCOPED_TRACE(testing::Message() << "stopped after " << stop << " batches");
      Batches got;
      std::string state;
      {
        Prefetcher feed(data, gpu::open("host"), options);
        while (got.size() < stop) {
          std::optional<Lease> batch = feed.next();
          if (batch.has_value()) got.push_back(NumbersView(*batch).samples());
        }
        state = feed.state();
      }
      EXPECT_LT(state.size(), 210U) << state;
      PrefetcherOptions then = options;
      then.resume = state;
      then.workers = 3;
      then.prefetch_depth = 4;
      Prefetcher feed(data, gpu::open("host"), then);
      for (std::uint64_t epoch = State::parse(state).next_epoch(); epoch < 3; ++epoch) {
        for (Lease& batch : feed.epoch(epoch)) {
          EXPECT_EQ(batch.epoch(), epoch);
          got.push_back(NumbersView(batch).samples());
        }
      }
      EXPECT_EQ(got, whole);
    }
  });
}

TEST_P(Resume, ALeaseThatIsHeldAbandonedOrUnwoundIsDeliveredAgain) {
  in_place([] {
    const Numbers data({.size = 40});
    PrefetcherOptions options = {.batch_size = 4, .max_leases = 2};
    Prefetcher feed(data, gpu::open("host"), options);
    const auto take = [&] { return std::move(*feed.next()); };
    take().release();                // 0
    take().abandon();                // 1
    { const Lease batch = take(); }  // 2: its destructor releases it
    const auto train = [&] {
      const Lease batch = take();  // 3
      throw std::domain_error("loss is not a number");
    };
    EXPECT_THROW(train(), std::domain_error);
    Lease held = take();  // 4
    take().release();     // 5
    options.resume = feed.state();
    held.release();
    const State state = State::parse(*options.resume);
    ASSERT_EQ(state.epochs.size(), 1U);
    EXPECT_EQ(state.epochs[0].batches.intervals(), (std::vector<Interval>{{0, 1}, {2, 3}, {5, 6}}));

    Prefetcher resumed(data, gpu::open("host"), options);
    EXPECT_EQ(resumed.state(), *options.resume) << "before anything was taken";
    std::vector<std::uint64_t> indices;
    for (Lease& batch : resumed.epoch(0)) {
      EXPECT_EQ(NumbersView(batch).samples(), support::expected_samples(data, options, batch));
      indices.push_back(batch.index());
    }
    EXPECT_EQ(indices, (std::vector<std::uint64_t>{1, 3, 4, 6, 7, 8, 9}));
    EXPECT_EQ(epoch_of(resumed, 0), expected_epoch(data, options, 0)) << "the second time, whole";
  });
}

// An exception that was on its way before the lease was made does not make it an abandoned one.
TEST_P(Resume, ALoopThatRunsWhileAnExceptionUnwindsReleasesItsBatches) {
  in_place([] {
    NumbersFeed feed({.size = 12});
    struct Evaluates {
      ~Evaluates() {
        for (Lease& batch : feed.epoch(0)) static_cast<void>(batch);
      }
      Prefetcher& feed;
    };
    try {
      const Evaluates at_the_end{feed};
      throw std::domain_error("over");
    } catch (const std::domain_error&) {
    }
    EXPECT_EQ(State::parse(feed.state()).epochs.at(0).batches.count(), 3U);
  });
}

TEST_P(Resume, AStateOfAnotherRunIsRefusedAndTheDifferenceNamed) {
  in_place([] {
    const Numbers data({.size = 40});
    const Numbers other({.size = 41});
    const gpu::Device device = gpu::open("host");
    const PrefetcherOptions options = {.batch_size = 4, .seed = 3};
    const std::string state = Prefetcher(data, device, options).state();
    const auto expect_refused = [&](const Dataset& dataset, PrefetcherOptions then,
                                    const std::string& text, const char* what) {
      const Prefetcher asked(dataset, device, then);
      expect_throws<Error>([&] { asked.check_resume(text); }, {what});
      then.resume = text;
      expect_throws<Error>([&] { Prefetcher(dataset, device, then); }, {what});
    };
    expect_refused(other, options, state, "samples 40, not 41");
    PrefetcherOptions changed = options;
    changed.batch_size = 8;
    expect_refused(data, changed, state, "batch_size 4, not 8");
    changed = options;
    changed.seed = 4;
    expect_refused(data, changed, state, "seed 3, not 4");
    changed = options;
    changed.order = Order::kSequential;
    expect_refused(data, changed, state, "order shuffled, not sequential");
    changed = options;
    changed.last_batch = LastBatch::kDrop;
    expect_refused(data, changed, state, "last_batch partial, not drop");
    expect_refused(data, options, state.substr(0, 60), "no state of a prefetcher");
    expect_refused(data, options, "checkpoint", "no state of a prefetcher");
    EXPECT_NO_THROW(Prefetcher(data, device, options).check_resume(state));
    changed = options;
    changed.workers = 3;
    changed.max_leases = 2;
    EXPECT_NO_THROW(Prefetcher(data, open_devices(2), changed).check_resume(state));
  });
}

// A life of a run, with up to three resumes, each with other ranks, workers and slots; ranks in
// step or not. Whatever was released counts, and in the end each position counts once.
struct Life {
  explicit Life(std::uint64_t seed)
      : random(seed),
        data({.size = random() % 60 + 1,
              .on_read = [](std::uint64_t sample) { sleep_for(Duration(sample * 7919 % 97)); }}),
        options({.batch_size = random() % 9 + 1,
                 .order = random() % 4 == 0 ? Order::kSequential : Order::kShuffled,
                 .seed = seed,
                 .last_batch = static_cast<LastBatch>(random() % 4)}) {}

  void run_segment();
  void run_to_the_end();
  bool take(Feed& feed);
  void check() const;

  static constexpr std::uint64_t kEpochs = 2;
  std::mt19937_64 random;
  const Numbers data;
  PrefetcherOptions options;
  bool in_step = true;
  bool may_share = false;
  std::vector<Lease> held;  // at most one
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::uint64_t>> released;
};

// False once there is nothing more to take, or what comes next would leave an abandoned batch
// behind: an epoch that the consumer has left is forgotten.
bool Life::take(Feed& feed) {
  std::optional<Lease> batch = feed.next();
  if (!batch.has_value()) return true;
  if (batch->epoch() >= kEpochs) {
    batch->abandon();
    return false;
  }
  const std::vector<std::uint64_t> samples = NumbersView(*batch).samples();
  EXPECT_EQ(samples.size(), batch->size());
  if (!in_step && random() % 10 == 0) {
    if (held.empty()) {
      held.push_back(*std::move(batch));
      return true;
    }
    batch->abandon();
    return false;
  }
  auto& all = released[{batch->epoch(), batch->index()}];
  all.insert(all.end(), samples.begin(), samples.end());
  batch->release();
  return true;
}

void Life::run_segment() {
  const std::size_t ranks = random() % 3 + 1;
  const bool is_shared = may_share && random() % 2 == 0;
  options.max_leases = 2;
  options.workers = random() % 3 + 1;
  options.prefetch_depth = random() % 3 + 1;
  options.pinned_slots = random() % 4;
  options.read_across_epochs = random() % 2 == 0;
  options.sharing = is_shared ? Sharing::kDynamic : Sharing::kStatic;
  options.delivery = is_shared ? Delivery::kAsCompleted : Delivery::kInOrder;
  Prefetcher prefetcher(data, open_devices(ranks), options);
  bool goes_on = true;
  for (std::uint64_t steps = random() % 12; goes_on && steps > 0; --steps) {
    for (std::size_t i = 0; i < ranks; ++i) {
      const bool took = take(prefetcher.rank(in_step ? i : random() % ranks));
      goes_on = goes_on && took;
    }
  }
  options.resume = prefetcher.state();
  // Of an epoch without batches, ranks may be any number apart.
  if (prefetcher.batches_per_epoch() > 0) {
    EXPECT_LE(options.resume->size(), 400U) << *options.resume;
  }
  held.clear();  // too late
}

void Life::run_to_the_end() {
  in_step = true;
  const std::size_t ranks = random() % 3 + 1;
  options.sharing = Sharing::kStatic;
  options.delivery = Delivery::kInOrder;
  Prefetcher prefetcher(data, open_devices(ranks), options);
  for (bool goes_on = data.size() >= options.batch_size || prefetcher.batches_per_epoch() > 0;
       goes_on;) {
    for (std::size_t i = 0; i < ranks; ++i) goes_on = take(prefetcher.rank(i));
  }
}

void Life::check() const {
  const BatchPlan plan(data.size(), options.batch_size, 1, options.last_batch);
  const Sampler sampler(data.size(), options.order, options.seed);
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::uint64_t batch = 0; batch < plan.batches(); ++batch) {
      std::vector<std::uint64_t> want;
      const PositionRange positions = plan.positions(batch);
      for (std::uint64_t i = 0; i < positions.count; ++i) {
        want.push_back(sampler.at(epoch, (positions.first + i) % data.size()));
      }
      const auto found = released.find({epoch, batch});
      std::vector<std::uint64_t> got =
          found == released.end() ? std::vector<std::uint64_t>{} : found->second;
      if (may_share) {
        std::ranges::sort(got);
        std::ranges::sort(want);
      }
      EXPECT_EQ(got, want) << "epoch " << epoch << ", batch " << batch;
    }
  }
}

// Each life in virtual time; `in_step`: ranks train in step, as in data-parallel training.
void live(bool in_step) {
  const auto lives = static_cast<std::uint64_t>(rounds(400));
  for (std::uint64_t seed = 0; seed < lives; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    in_virtual_time({.workers = seed % 10 == 0 ? 2 : 1, .seed = seed}, [&] {
      Life life(seed);
      life.may_share = !in_step;
      for (std::uint64_t resumes = seed % 4; resumes > 0; --resumes) {
        life.in_step = in_step;
        life.run_segment();
      }
      life.run_to_the_end();
      life.check();
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ResumeLives, OfRanksInStepHaveEachSampleOnceAndInOrder) { live(true); }
TEST(ResumeLives, OfRanksThatAreNotHaveEachSampleOnce) { live(false); }

}  // namespace resume_test
}  // namespace leat::feeder
