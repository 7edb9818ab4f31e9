// A live view of a prefetcher that runs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/gpu/device.h"
#include "tests/feeder/live/terminal.h"
#include "tests/support/numbers.h"

namespace leat::feeder {
namespace live_test {

using namespace std::chrono_literals;
using support::Numbers;

void consume_all(int fd, std::uint64_t batches = 0) {
  const Numbers data({.size = 32});
  const gpu::Device device = gpu::open("host");
  Prefetcher feed(data, device, {.batch_size = 4, .live = Live{.fd = fd, .batches = batches}});
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    for (Lease& batch : feed.epoch(epoch)) batch.release();
  }
}

TEST(Live, SaysAtTheEndHowFarTheLoopCame) {
  const Pipe pipe;
  consume_all(pipe.to.get());
  EXPECT_TRUE(read_all(pipe.from.get()).starts_with("host:0   epoch 1   8 of 8 (100 %)   "));
  consume_all(pipe.to.get(), 20);
  EXPECT_TRUE(read_all(pipe.from.get()).starts_with("host:0   epoch 1   16 of 20 (80 %)   "));
}

// Two devices that share an epoch, of a step a second each, under virtual time: 60 of 100 batches
// are left, of two a second.
TEST(Live, RatesAndTheTimeLeftAreOfTheStepsTime) {
  const Pipe pipe;
  const auto body = [&] {
    const Numbers data({.size = 400});
    const std::vector<gpu::Device> devices = {gpu::open("host:0"), gpu::open("host:1")};
    Prefetcher feed(
        data, devices,
        {.batch_size = 4, .sharing = Sharing::kDynamic, .live = Live{.fd = pipe.to.get()}});
    TaskGroup group;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      group.go([&, i] {
        int steps = 0;
        for (Lease& batch : feed.rank(i).epoch(0)) {
          sleep_for(1s);
          batch.release();
          if (++steps == 20) break;
        }
      });
    }
    group.wait();
  };
  VirtualClock clock;
  run(body, {.workers = 1, .clock = &clock});
  const std::string text = read_all(pipe.from.get());
  for (const char* device : {"host:0", "host:1"}) {
    const std::string line = std::string(device) +
                             "   epoch 0   40 of 100 (40 %)   1.00 steps/s   ETA 0:00:30   "
                             "4.00 samples/s   ";
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
}

TEST(Live, APipeThatIsFullOrThatNobodyReadsHoldsUpNothing) {
  Pipe pipe;
  ASSERT_EQ(fcntl(pipe.to.get(), F_SETFL, O_NONBLOCK), 0);
  const std::string much(1 << 16, '.');
  while (write(pipe.to.get(), much.data(), much.size()) > 0) continue;
  ASSERT_EQ(fcntl(pipe.to.get(), F_SETFL, 0), 0);
  consume_all(pipe.to.get());
  EXPECT_EQ(read_all(pipe.from.get()).find_first_not_of('.'), std::string::npos);
  pipe.from.close();
  consume_all(pipe.to.get());  // no SIGPIPE
}

// Rates are of the time of whoever releases, wherever the prefetcher was made, and when it ends.
TEST(Live, ClocksThatEndBeforeItAreLeftAlone) {
  for (const bool is_made_inside : {false, true}) {
    const Pipe pipe;
    const Numbers data({.size = 32});
    std::unique_ptr<Prefetcher> feed;
    const auto make = [&] {
      feed = std::make_unique<Prefetcher>(
          data, gpu::open("host"),
          PrefetcherOptions{.batch_size = 4, .live = Live{.fd = pipe.to.get()}});
    };
    const auto loop = [&] {
      if (is_made_inside) make();
      for (Lease& batch : feed->epoch(0)) {
        sleep_for(2s);
        batch.release();
      }
    };
    if (!is_made_inside) make();
    {
      VirtualClock clock;
      run(loop, {.workers = 1, .clock = &clock});
    }
    feed.reset();
    const std::string text = read_all(pipe.from.get());
    EXPECT_NE(text.find("8 of 8 (100 %)   0.50 steps/s"), std::string::npos) << text;
  }
}

TEST(Live, ADescriptorThatIsNotOpenIsRefused) {
  EXPECT_THROW(consume_all(-1), std::invalid_argument);
}

}  // namespace live_test
}  // namespace leat::feeder
