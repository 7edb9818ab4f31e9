// Resuming several processes, whose ranks stop where they happen to be, again and again: their
// states are merged, and another number of processes goes on. A process is a prefetcher here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "tests/support/numbers.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace resume_processes_test {

using support::Numbers;
using support::NumbersView;

using Counts = std::map<std::pair<std::uint64_t, std::uint64_t>, int>;  // (epoch, sample)

class Processes {
 public:
  Processes(const Dataset& data, PrefetcherOptions options, std::uint64_t epochs)
      : data_(data), options_(std::move(options)), epochs_(epochs) {}

  // A life of so many processes: each trains on as many batches as steps(rank) says, unless its
  // epochs are over. Then their states are merged.
  template <class Steps>
  void live(std::size_t count, const Steps& steps) {
    std::vector<State> states;
    for (std::size_t rank = 0; rank < count; ++rank) {
      options_.rank = rank;
      options_.world_size = count;
      Prefetcher feed(data_, gpu::open("host"), options_);
      const std::uint64_t begin =
          options_.resume.has_value() ? State::parse(*options_.resume).next_epoch() : 0;
      std::size_t left = steps(rank);
      for (std::uint64_t epoch = begin; epoch < epochs_ && left > 0; ++epoch) {
        for (Lease& batch : feed.epoch(epoch)) {
          if (left-- == 0) {
            batch.abandon();
            left = 0;
            break;
          }
          for (const std::uint64_t sample : NumbersView(batch).samples()) {
            ++seen_[{epoch, sample}];
          }
        }
      }
      states.push_back(State::parse(feed.state()));
      EXPECT_EQ(State::parse(states.back().text()), states.back());
    }
    options_.resume = State::merge(states).text();
  }

  void expect_each_once() const {
    for (std::uint64_t epoch = 0; epoch < epochs_; ++epoch) {
      for (std::uint64_t sample = 0; sample < data_.size(); ++sample) {
        const auto found = seen_.find({epoch, sample});
        ASSERT_EQ(found == seen_.end() ? 0 : found->second, 1)
            << "epoch " << epoch << ", sample " << sample;
      }
    }
  }
  [[nodiscard]] const std::string& state() const noexcept { return *options_.resume; }

 private:
  const Dataset& data_;
  PrefetcherOptions options_;
  const std::uint64_t epochs_;
  Counts seen_;
};

constexpr std::size_t kAll = ~std::size_t{0};

TEST(ResumeProcesses, TwoMergesWithinABatchLoseAndRepeatNothing) {
  const Numbers data({.size = 12});
  for (const std::size_t goes_on : {0U, 1U}) {
    Processes run(data, {.batch_size = 6, .order = Order::kSequential}, 1);
    run.live(2, [](std::size_t rank) { return rank == 0 ? 1U : 0U; });
    run.live(2, [&](std::size_t rank) { return rank == goes_on ? 1U : 0U; });
    run.live(2, [](std::size_t) { return kAll; });
    run.expect_each_once();
  }
}

TEST(ResumeProcesses, RanksMayBeSeveralEpochsApart) {
  const Numbers data({.size = 12});
  for (const std::size_t apart : {1U, 2U, 3U}) {
    Processes run(data, {.batch_size = 6, .order = Order::kSequential}, 4);
    run.live(2, [&](std::size_t rank) { return rank == 0 ? 0U : 2 * apart + 1; });
    run.live(2, [](std::size_t) { return kAll; });
    run.expect_each_once();
  }
}

TEST(ResumeProcesses, RandomLivesHaveEachSampleOnce) {
  std::mt19937_64 random(5);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int life = 0; life < support::rounds(150); ++life) {
    const Numbers data({.size = 1 + below(40)});
    const std::size_t batch_size = 1 + below(12);
    const std::uint64_t epochs = 1 + below(4);
    const std::size_t batches = data.size() / batch_size + 1;
    Processes run(data, {.batch_size = batch_size, .workers = 1 + below(3), .seed = below(100)},
                  epochs);
    SCOPED_TRACE(testing::Message() << "life " << life << ", " << data.size() << " samples, "
                                    << batch_size << " a batch, " << epochs << " epochs");
    support::in_virtual_time([&] {  // where no thread has to start
      for (std::size_t resumes = below(5); resumes > 0; --resumes) {
        run.live(1 + below(4), [&](std::size_t) { return below(batches * epochs); });
      }
      run.live(1 + below(4), [](std::size_t) { return kAll; });
    });
    run.expect_each_once();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ResumeProcesses, StatesFarApartAreRefused) {
  State near{.samples = 10, .batch_size = 2, .rank = 0, .world_size = 2, .epochs = {}};
  State far = near;
  far.rank = 1;
  far.epochs.push_back({.epoch = 20'000, .batches = {}, .positions = {}});
  const std::vector<State> both = {near, far};
  EXPECT_THROW(static_cast<void>(State::merge(both)), std::invalid_argument);
}

}  // namespace resume_processes_test
}  // namespace leat::feeder
