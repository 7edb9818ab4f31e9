// What the pages of docs/ show of the feeder, besides the examples.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/receipt.h"
#include "leat/feeder/state.h"
#include "leat/feeder/trace.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"

namespace leat::feeder {
namespace readme_test {

using support::Numbers;

TEST(Readme, TheWeightsOfAStepsShardsAddUpToOne) {
  run([] {
    const Numbers data({.size = 11});
    const std::vector<gpu::Device> devices = {gpu::open("host:0"), gpu::open("host:1")};
    std::array<std::vector<double>, 2> weights;
    std::array<std::vector<std::size_t>, 2> shards;
    const auto train_step = [&](const Lease& batch, double weight, std::size_t rank) {
      weights[rank].push_back(weight);
      shards[rank].push_back(batch.step_shards());
    };
    // [several]
    Prefetcher prefetcher(data, devices, {.batch_size = 5});
    TaskGroup group;
    for (std::size_t rank = 0; rank < prefetcher.ranks(); ++rank) {
      group.go([&, rank] {
        Feed& feed = prefetcher.rank(rank);
        const gpu::Stream stream(feed.device());
        for (Lease& batch : feed.epoch(0, stream)) {  // each rank has all steps
          const double weight =
              static_cast<double>(batch.size()) / static_cast<double>(batch.step_size());
          train_step(batch, weight, rank);  // its gradients, times weight, are to be summed up
        }
      });
    }
    group.wait();
    // [/several]
    EXPECT_EQ(weights[0], (std::vector<double>{3 / 5.0, 3 / 5.0, 1}));
    EXPECT_EQ(weights[1], (std::vector<double>{2 / 5.0, 2 / 5.0, 0})) << "the last one is empty";
    for (const auto& of_rank : shards) EXPECT_EQ(of_rank, (std::vector<std::size_t>{2, 2, 1}));
  });
}

TEST(Readme, StatesOfRanksThatWereNotInStepAreMergedAndGoneOnWithByOne) {
  run([] {
    const Numbers data({.size = 60});
    std::multiset<std::uint64_t> seen;
    const auto see = [&](const std::vector<std::uint64_t>& samples) {
      seen.insert(samples.begin(), samples.end());
    };
    std::array<std::string, 2> texts;
    for (const std::size_t rank : {0U, 1U}) {
      Prefetcher feed(data, gpu::open("host"), {.batch_size = 8, .rank = rank, .world_size = 2});
      for (std::size_t step = 0; step < 2 + 3 * rank; ++step) {
        Lease batch = feed.next().value();
        see(support::NumbersView(batch).samples());
      }
      texts[rank] = feed.state();
    }
    const gpu::Device device = gpu::open("host");
    // [merge]
    std::vector<State> states;
    for (const std::string& text : texts) states.push_back(State::parse(text));
    Prefetcher feed(data, device, {.batch_size = 8, .resume = State::merge(states).text()});
    // [/merge]
    for (const auto& batch : rest_of(feed)) see(batch);
    EXPECT_EQ(seen.size(), 60U);
    EXPECT_EQ(std::set<std::uint64_t>(seen.begin(), seen.end()).size(), 60U);
  });
}

TEST(Readme, ABatchCountsByItsReceiptAfterItsSlotWentBack) {
  run([] {
    NumbersFeed feed({.size = 16});
    std::vector<std::vector<std::uint64_t>> copies;
    const auto copy_elsewhere = [&](Lease& batch) {
      copies.push_back(support::NumbersView(batch).samples());
    };
    for (const bool step_is_good : {true, false, true}) {
      // [receipt]
      Lease batch = std::move(*feed.next());
      Receipt receipt = batch.receipt();
      copy_elsewhere(batch);
      batch.release();                     // the slot goes back; the batch does not count
      if (step_is_good) receipt.commit();  // now it does
      // [/receipt]
    }
    EXPECT_EQ(copies, (Batches{feed.want(0, 0), feed.want(0, 1), feed.want(0, 2)}));
    EXPECT_EQ(State::parse(feed.state()).epochs.at(0).batches.intervals(),
              (std::vector<Interval>{{0, 1}, {2, 3}}));
  });
}

TEST(Readme, SamplesThatFailAreListed) {
  run([] {
    const Numbers data({.size = 60, .on_read = [](std::uint64_t sample) {
                          if (sample == 9) throw std::runtime_error("a bad sector");
                        }});
    const gpu::Device device = gpu::open("host");
    std::string list;
    // [failures]
    Prefetcher feed(data, device,
                    {.batch_size = 8,
                     .read_failures = {.count = 3, .rate = 1e-4},  // 3, or 1e-4 if that is more
                     .transform_failures = {.count = 1}});
    for (Lease& batch : feed.epoch(0)) static_cast<void>(batch.size());  // 7 in one of them
    for (const FailedSample& failed : feed.failed_samples()) {
      list += std::string(to_string(failed.stage)) + " of sample " + std::to_string(failed.sample) +
              ": " + failed.error + '\n';
    }
    // [/failures]
    EXPECT_EQ(list.find("read of sample 9: a bad sector\n"), 0U) << list;
  });
}

TEST(Readme, ATraceIsSavedForATimelineViewer) {
  const std::string file = testing::TempDir() + "leat_readme_trace.json";
  run([&] {
    const Numbers data({.size = 60});
    const gpu::Device device = gpu::open("host");
    const gpu::Stream stream(device);
    // [trace]
    const auto trace = std::make_shared<Trace>();
    Prefetcher feed(data, device, {.batch_size = 8, .trace = trace});
    for (Lease& batch : feed.epoch(0, stream)) static_cast<void>(batch.size());  // your steps
    stream.sync();
    std::fputs(trace->timeline().c_str(), stdout);
    trace->save(file);  // "loop.json"
    // [/trace]
  });
  std::ifstream saved(file);
  const std::string text{std::istreambuf_iterator<char>(saved), {}};
  EXPECT_NE(text.find("\"traceEvents\""), std::string::npos);
  EXPECT_NE(text.find("work on batches"), std::string::npos);
  std::filesystem::remove(file);
}

}  // namespace readme_test
}  // namespace leat::feeder
