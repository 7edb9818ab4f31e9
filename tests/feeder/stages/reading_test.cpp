// What a prefetcher says its fibers do.
#include "leat/feeder/stages/reading.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <regex>
#include <semaphore>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace reading_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::Numbers;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The line of that fiber, without its name.
std::string line_of(const std::string& text, const std::string& name) {
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with(name + ": ")) return line.substr(name.size() + 2);
  }
  return "(no line)";
}

TEST(StagesText, SaysWhatEachFiberDoes) {
  in_virtual_time({.workers = 1}, [] {
    const Numbers data({.size = 16, .read_time = 1s});
    Prefetcher feed(data, gpu::open("host"),
                    {.batch_size = 4, .workers = 2, .order = Order::kSequential});
    EXPECT_EQ(feed.next()->index(), 0U);  // after 4 s: now both readers begin their second batch
    sleep_for(2500ms);
    const std::string early = feed.stages();
    EXPECT_EQ(lines_of(early).size(), 5U) << early;
    std::vector<std::string> reads = {line_of(early, "reader 0"), line_of(early, "reader 1")};
    std::ranges::sort(reads);
    EXPECT_EQ(reads[0], "reads batch 2 of epoch 0 for 2.50 s, now sample 10");
    EXPECT_EQ(reads[1], "reads batch 3 of epoch 0 for 2.50 s, now sample 14");
    expect_begins(line_of(early, "sampler"), "waits for ");
    expect_begins(line_of(early, "copier"), "waits for recv on channel \"");
    expect_begins(line_of(early, "recycler"), "waits for recv on channel \"");
    sleep_for(1h);  // every slot is full, and nobody takes a batch
    const std::string later = feed.stages();
    for (const char* const name : {"reader 0", "reader 1"}) {
      expect_begins(line_of(later, name), "waits for recv on channel \"slots to fill\"");
    }
    EXPECT_TRUE(feed.next().has_value());
    sleep_for(500ms);
    const std::string then = feed.stages();
    EXPECT_NE(then.find(" for 500 ms, now sample "), std::string::npos) << then;
    feed.stop();
    sleep_for(1h);
    EXPECT_EQ(feed.stages(), "");
  });
}

TEST(StagesText, NamesTheRankWhereThereAreSeveral) {
  in_virtual_time({.workers = 1}, [] {
    const Numbers data({.size = 16});
    PrefetcherOptions options = {.batch_size = 4};
    options.world_size = 4;
    options.rank = 1;
    Prefetcher feed(data, open_devices(2), options);
    sleep_for(1s);
    const std::string text = feed.stages();
    for (const char* const name : {"copier of rank 1", "copier of rank 2", "recycler of rank 2"}) {
      expect_begins(line_of(text, name), "waits for ");
    }
  });
}

// A read that hangs, seen from a thread that is no fiber.
TEST(StagesText, OfAReadThatHangs) {
  std::binary_semaphore reached(0);
  std::binary_semaphore open(0);
  const Numbers data({.size = 16, .on_read = [&](std::uint64_t sample) {
                        if (sample != 6) return;
                        reached.release();
                        open.acquire();
                      }});
  Prefetcher feed(data, gpu::open("host"), {.batch_size = 4, .order = Order::kSequential});
  EXPECT_EQ(feed.next()->index(), 0U);
  reached.acquire();
  const std::string text = feed.stages();
  EXPECT_TRUE(std::regex_search(
      text, std::regex("reader 0: reads batch 1 of epoch 0 for [0-9.]+ [a-z]+, now sample 6\n")))
      << text;
  open.release();
}

// Batch and sample belong together, whenever somebody asks.
TEST(StagesText, MayBeAskedForAtAnyTimeFromAnywhere) {
  const Numbers data({.size = 4 * 200});
  Prefetcher feed(data, gpu::open("host"),
                  {.batch_size = 4, .workers = 2, .order = Order::kSequential});
  std::atomic<bool> over = false;
  std::thread asks([&] {
    const std::regex reads("reads batch ([0-9]+) of epoch [01] for .*, now sample ([0-9]+)\n");
    while (!over) {
      const std::string text = feed.stages();
      for (std::sregex_iterator it(text.begin(), text.end(), reads), end; it != end; ++it) {
        EXPECT_EQ(std::stoull((*it)[2]) / 4, std::stoull((*it)[1])) << text;
      }
    }
  });
  for (const std::uint64_t epoch : {0U, 1U})
    EXPECT_EQ(count_samples(feed.epoch(epoch)), data.size());
  over = true;
  asks.join();
}

}  // namespace reading_test
}  // namespace leat::feeder
