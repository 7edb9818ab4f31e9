// A trace as text: of known steps, every column is known.
#include "leat/feeder/trace/timeline.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/feeder/prefetcher.h"
#include "leat/feeder/trace.h"
#include "tests/feeder/live/terminal.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace timeline_test {

using namespace std::chrono_literals;

const std::map<std::string, const char*> kAscii = {{"LC_ALL", "C"}};

// 16 batches of 400 bytes, which a link of 1 GB/s copies in 400 ns, and as much work on each.
std::string of_loop(std::size_t prefetch_depth, const TimelineOptions& options) {
  std::string drawn;
  support::in_virtual_time([&] {
    const auto trace = std::make_shared<Trace>();
    NumbersFeed feed({.size = 64, .pattern_bytes = 92},
                     {.batch_size = 4, .prefetch_depth = prefetch_depth, .trace = trace},
                     {.h2d_bandwidth = 1e9});
    for (Lease& batch : feed.epoch(0, feed.stream)) feed.launch_check(batch, 400ns);
    feed.stream.sync();
    drawn = "\n" + trace->timeline(options);
  });
  return drawn;
}

TEST(Timeline, OfALoopShowsItInTurnsAndOverlappedToOneScale) {
  const Environment ascii(kAscii);
  EXPECT_EQ(of_loop(1, {}), R"(
  copy    #####1######           =====2======            #####3#####
  compute             #####1#####            =====2======           #####3######
  time    |0 us          |0.5          |1             |1.5          |2
)");
  EXPECT_EQ(of_loop(2, {.length = 2400ns}), R"(
  copy    =====2======#####3#####=====4======
  compute #####1######=====2=====#####3######
  time    |0 us          |0.5          |1             |1.5          |2
)");
}

TEST(Timeline, IsInUtf8WhereTheLocaleIs) {
  const Environment unicode(kTerminal);
  EXPECT_EQ(of_loop(1, {.steps = 2, .columns = 40}), R"(
  copy    ███1████       ▓▓▓2▓▓▓▓
  compute         ███1███        ▓▓▓2▓▓▓
  time    |0 us    |0.5      |1
)");
}

// Steps that end at these microseconds, each of work alone for a microsecond before.
std::vector<TimedStep> ending_at(const std::vector<int>& ends) {
  std::vector<TimedStep> steps;
  for (const int end : ends) {
    const Duration at = std::chrono::microseconds(end);
    steps.push_back({.copy = {at - 1us, at - 1us}, .use = {at - 1us, at}});
  }
  return steps;
}

// A stretch in which something else had the machine says nothing of the loop.
TEST(Timeline, DrawsTheStretchOfMedianLength) {
  const Environment ascii(kAscii);
  EXPECT_EQ("\n" + timeline_text(ending_at({10, 11, 90, 93, 94, 97}), {.steps = 1}), R"(
  copy
  compute                                                ###########1###########
  time    |0 us       |0.5       |1          |1.5        |2         |2.5
)");
}

TEST(Timeline, WhatIsShorterThanAColumnIsDrawnAsOne) {
  const Environment ascii(kAscii);
  std::vector<TimedStep> steps = ending_at({0, 1000});
  steps[1].copy = {500us, 500us + 1ns};
  EXPECT_EQ("\n" + timeline_text(steps, {.steps = 1, .columns = 40}), R"(
  copy                   #
  compute                              #
  time    |0 ms          |0.5
)");
}

TEST(Timeline, SaysWhyThereIsNone) {
  EXPECT_EQ(timeline_text(ending_at({1, 2}), {.steps = 2}),
            "  no timeline: for one of 2 steps, 3 batches have to be recorded and used on a "
            "stream; these are 2\n");
  EXPECT_EQ(Trace().timeline(),
            "  no timeline: for one of 3 steps, 4 batches have to be recorded and used on a "
            "stream; these are 0\n");
  EXPECT_EQ(timeline_text(ending_at({1, 1}), {.steps = 1}),
            "  no timeline: the steps take no time\n");
}

TEST(Timeline, RefusesNoStepsAndTooFewColumns) {
  support::expect_throws<std::invalid_argument>(
      [] { static_cast<void>(Trace().timeline({.steps = 0})); }, {"0 steps", "at least 1 step"});
  support::expect_throws<std::invalid_argument>(
      [] { static_cast<void>(Trace().timeline({.columns = 39})); },
      {"39 columns", "at least 40 columns"});
}

TEST(Timeline, NamesTheDevicesWhereThereAreSeveral) {
  support::in_virtual_time([] {
    const auto trace = std::make_shared<Trace>();
    const support::Numbers data({.size = 8});
    const Prefetcher feed(data, open_devices(2), {.batch_size = 4, .trace = trace});
    expect_contains(trace->timeline(), {"host:0\n  no timeline", "host:1\n  no timeline"});
  });
}

}  // namespace timeline_test
}  // namespace leat::feeder
