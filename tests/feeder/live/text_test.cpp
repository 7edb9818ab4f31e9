// What a live view says, exactly.
#include "leat/feeder/live/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/feeder/live/terminal.h"

namespace leat::feeder {
namespace text_test {

std::string text(const std::vector<LiveRow>& rows, const LiveStyle& style) {
  std::string text = "\n";
  for (const std::string& line : live_text(rows, style)) text += line + "\n";
  return text;
}

// Where no terminal is.
std::string line(const LiveRow& row) {
  return live_text(std::vector{row}, {.is_terminal = false}).at(0);
}

TEST(LiveText, OneDevice) {
  EXPECT_EQ(text({row()}, {.width = 80}), R"(
cuda:0   epoch 2   ██▋           1204 of 5000 (24 %)   333 steps/s   ETA 0:00:11
  reader █████▍    67 % ─► copier ██▋       33 % ─► consumer ████████ 100 % ◄
  21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready
  The consumer limits the loop (Tc is 100.0 % of the step): reading and copying
  are hidden behind it, and only a faster step helps.
  copy                ██████           ▓▓▓▓▓▓            ██████           ▓▓▓▓▓▓
  compute ██████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓██████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
  OE 1.000   Tstep 3.00 ms   Tc 3.00 ms   Tx 1.00 ms   bubble 0.00 ns
)");
}

TEST(LiveText, InAscii) {
  EXPECT_EQ(text({row()}, {.width = 80, .unicode = false}), R"(
cuda:0   epoch 2   ###........   1204 of 5000 (24 %)   333 steps/s   ETA 0:00:11
  reader #####...  67 % -> copier ###.....  33 % -> consumer ######## 100 % <
  21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready
  The consumer limits the loop (Tc is 100.0 % of the step): reading and copying
  are hidden behind it, and only a faster step helps.
  copy                ######           ======            ######           ======
  compute ##################=================##################=================
  OE 1.000   Tstep 3.00 ms   Tc 3.00 ms   Tx 1.00 ms   bubble 0.00 ns
)");
}

// The device was idle at the ends of the steps: how long it worked is not known.
TEST(LiveText, AnUpperBoundOfTheWorkIsTold) {
  LiveRow idle = row();
  idle.stats.idle_ends = 1;
  EXPECT_EQ(text({idle}, {.width = 100}), R"(
cuda:0   epoch 2   ███████▌                          1204 of 5000 (24 %)   333 steps/s   ETA 0:00:11
  reader █████████▍      67 % ─► copier ████▋           33 % ─► consumer ██████████████ <= 100 % ◄
  21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready
  The consumer limits the loop (Tc is at most 100.0 % of the step): reading and copying are hidden
  behind it. How long the device works is not known: it had nothing left to do at the end of steps
  that take 100.0 % of the time, and their Tc includes what the host did until then. Release a
  batch, or ask for the next one, as soon as the work on it is enqueued: then Tc is the device's
  work.
  copy                   ████████               ▓▓▓▓▓▓▓               ████████               ▓▓▓▓▓▓▓
  compute ███████████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓███████████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
  OE <= 1.000   Tstep 3.00 ms   Tc <= 3.00 ms   Tx 1.00 ms   bubble >= 0.00 ns   Tread 4.00 ms / 2
)");
}

// As in the table: a loop that never overlaps would have nearly the same OE.
TEST(LiveText, AnEfficiencyThatSaysNothingIsLeftOut) {
  LiveRow short_copies = row();
  short_copies.stats.t_x = 3e-6;
  EXPECT_EQ(live_text(std::vector{short_copies}, {.width = 80}).back(),
            "  Tstep 3.00 ms   Tc 3.00 ms   Tx 3.00 us   Tread 4.00 ms / 2");
}

TEST(LiveText, TakingTurns) {
  LiveRow serial = row();
  serial.stats.t_step = 4e-3;
  serial.stats.device_slots = 1;
  serial.stats.consumer = {.busy = 0.75, .starved = 0.25, .blocked = 0};
  EXPECT_EQ(text({serial}, {.width = 60}), R"(
cuda:0   epoch 2   █▎      1204 of 5000 (24 %)   333 steps/s
  reader  67 % ─► copier  33 % ─► consumer  75 %
  21.3 k samples/s   1.33 GB/s
  Copies and compute take turns, because prefetch_depth is
  1: with 2 they overlap, and a step takes max(Tc, Tx) =
  3.00 ms instead of 4.00 ms.
  copy             ████         ▓▓▓         ████         ▓▓▓
  compute █████████    ▓▓▓▓▓▓▓▓▓   █████████    ▓▓▓▓▓▓▓▓▓   
  OE 0.750   Tstep 4.00 ms   Tc 3.00 ms   Tx 1.00 ms
)");
}

TEST(LiveText, SeveralDevicesAndTheSlowestOfThem) {
  std::vector<LiveRow> rows(2, row());
  rows[1].device = "cuda:1";
  rows[1].stats.t_x = 5e-3;
  rows[1].stats.t_step = 5e-3;
  EXPECT_EQ(text(rows, {.width = 100}), R"(
cuda:0   epoch 2   ███████▌                          1204 of 5000 (24 %)   333 steps/s   ETA 0:00:11
  reader ██████████       67 % ─► copier █████            33 % ─► consumer ███████████████ 100 % ◄
  21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready
cuda:1   epoch 2   ███████▌                          1204 of 5000 (24 %)   333 steps/s   ETA 0:00:11
  reader ██████████       67 % ─► copier █████            33 % ◄ ─► consumer ███████████████ 100 %
  21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready
cuda:1, the slowest:
  The link limits the loop (Tx is 100.0 % of the step): fewer bytes per sample, or a faster link,
  would help.
  copy    ███████████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓███████████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
  compute ██████████████         ▓▓▓▓▓▓▓▓▓▓▓▓▓         ██████████████         ▓▓▓▓▓▓▓▓▓▓▓▓▓         
  OE 1.000   Tstep 5.00 ms   Tc 3.00 ms   Tx 5.00 ms   bubble 0.00 ns   Tread 4.00 ms / 2
)");
}

TEST(LiveText, BeforeAnythingIsKnown) {
  LiveRow fresh;
  fresh.device = "host:0";
  EXPECT_EQ(text({fresh}, {.width = 80}), R"(
host:0   epoch 0                                        0 of 0 (0 %)   ? steps/s
  reader              ? ─► copier              ? ─► consumer              ?
  ? samples/s   ? B/s   slots: 0 of 0 filled, 0 of 0 ready
  No step was sampled. A step leads from one batch to the next one of its epoch;
  of those on a stream, one in sample_every is sampled.
  copy    ?
  compute ?
  OE ?   Tstep ?   Tc ?   Tx ?   bubble ?   Tread ?
)");
  EXPECT_EQ(line(fresh),
            "host:0   epoch 0   0 of 0 (0 %)   ? steps/s   ? samples/s   ? B/s   "
            "slots: 0 of 0 filled, 0 of 0 ready   reader     ?   copier     ?   consumer     ?   "
            "OE ?   Tstep ?   Tc ?   Tx ?   bubble ?   Tread ?");
}

// Steps are timed, and no copy was.
TEST(LiveText, BeforeTheLinkIsKnown) {
  LiveRow some = row();
  some.stats.t_x = 0;
  some.stats.copier = {};
  EXPECT_EQ(text({some}, {.width = 80}), R"(
cuda:0   epoch 2   ██▋           1204 of 5000 (24 %)   333 steps/s   ETA 0:00:11
  reader █████▍    67 % ─► copier              ? ─► consumer ████████ 100 %
  21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready
  No copy was timed (one in sample_every is): what limits the loop is not known.
  copy    ?
  compute ██████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓██████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
  OE ?   Tstep 3.00 ms   Tc 3.00 ms   Tx ?   bubble ?   Tread 4.00 ms / 2
)");
  EXPECT_EQ(line(some),
            "cuda:0   epoch 2   1204 of 5000 (24 %)   333 steps/s   ETA 0:00:11   "
            "21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready   reader  67 %   "
            "copier     ?   consumer 100 %   OE ?   Tstep 3.00 ms   Tc 3.00 ms   Tx ?   "
            "bubble ?   Tread 4.00 ms / 2");
}

TEST(LiveText, ALine) {
  EXPECT_EQ(line(row()),
            "cuda:0   epoch 2   1204 of 5000 (24 %)   333 steps/s   ETA 0:00:11   "
            "21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready   reader  67 %   "
            "copier  33 %   consumer 100 % (limits)   OE 1.000   Tstep 3.00 ms   Tc 3.00 ms   "
            "Tx 1.00 ms   bubble 0.00 ns   Tread 4.00 ms / 2");
}

// Of a common epoch, the other devices take their parts: it is over sooner than at one's rate.
TEST(LiveText, TheTimeLeftIsOfWhatMakesTheProgress) {
  LiveRow shared = row();
  shared.done_per_second = 4 * 333.3;
  EXPECT_NE(line(shared).find("   333 steps/s   ETA 0:00:03   "), std::string::npos);
  shared.total = 5'000'000;
  EXPECT_NE(line(shared).find("   ETA 1:02:29   "), std::string::npos);
  shared.done = 2 * shared.total;  // nothing is left
  EXPECT_NE(line(shared).find("(100 %)   333 steps/s   21.3"), std::string::npos);
}

TEST(LiveText, RatesHaveThreeDigits) {
  const std::vector<std::pair<double, std::string>> cases = {
      {0, "?"},       {0.25, "0.25"},    {9.994, "9.99"},  {9.996, "10.0"},
      {99.96, "100"}, {999.6, "1.00 k"}, {2.5e9, "2.50 G"}};
  for (const auto& [rate, figure] : cases) {
    LiveRow one = row();
    one.samples_per_second = rate;
    EXPECT_NE(line(one).find("   " + figure + " samples/s   "), std::string::npos) << line(one);
  }
}

// Colours take no columns, and none is left on.
TEST(LiveText, ColoursGoAroundTheSameText) {
  const std::string coloured = text({row()}, {.width = 80, .colour = true});
  const std::regex whole_runs("\x1b\\[3[234]m([^\x1b\n]*)\x1b\\[0m");
  EXPECT_EQ(std::regex_replace(coloured, whole_runs, "$1"), text({row()}, {.width = 80}));
  const std::sregex_iterator runs(coloured.begin(), coloured.end(), whole_runs);
  EXPECT_EQ(std::distance(runs, std::sregex_iterator()), 7);
}

std::size_t columns(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(LiveText, NoLineIsWiderThanTheTerminalAndNoBlockHigher) {
  std::vector<LiveRow> rows(12, row());
  rows[3].total = 0;
  rows[4].done = rows[4].total = ~std::uint64_t{0};
  rows[5].steps_per_second = rows[5].done_per_second = 1e-9;
  rows[6].stats.t_x = 1e-9;
  rows[7].stats.t_c = 0;
  for (const bool unicode : {false, true}) {
    for (std::size_t width = 0; width < 200; ++width) {
      for (const std::string& line : live_text(rows, {.width = width, .unicode = unicode})) {
        EXPECT_LE(columns(line), width) << line;
      }
    }
    for (std::size_t height = 0; height < 50; ++height) {
      EXPECT_LE(live_text(rows, {.height = height, .unicode = unicode}).size(), height);
    }
  }
}

// A figure that is cut reads as another one.
TEST(LiveText, WhatDoesNotFitIsLeftOutWhole) {
  EXPECT_EQ(text({row()}, {.width = 20}), "\n1204 of 5000 (24 %)\n");
  EXPECT_EQ(text({row()}, {.width = 39}), "\n1204 of 5000 (24 %)   333 steps/s\n");
  EXPECT_EQ(text({row()}, {.width = 40}), R"(
cuda:0   epoch 2   1204 of 5000 (24 %)
  consumer 100 % ◄
  21.3 k samples/s   1.33 GB/s
  The consumer limits the loop (Tc is
  100.0 % of the step): reading and
  copying are hidden behind it, and only
  a faster step helps.
  copy         ███     ▓▓     ███     ▓▓
  compute ████████▓▓▓▓▓▓▓████████▓▓▓▓▓▓▓
  OE 1.000   Tstep 3.00 ms   Tc 3.00 ms
)");
  const auto block = [](std::size_t width) {
    return live_text(std::vector{row()}, {.width = width, .unicode = false});
  };
  const std::regex progress("cuda.*( \\(24 %\\)| steps/s| ETA 0:00:11)");
  const std::regex stages("  (reader.*)?consumer.* 100 % <");
  for (std::size_t width = 40; width < 120; ++width) {
    EXPECT_TRUE(std::regex_match(block(width)[0], progress)) << width;
    EXPECT_TRUE(std::regex_match(block(width)[1], stages)) << width;
    EXPECT_TRUE((block(200)[2] + "   ").starts_with(block(width)[2] + "   ")) << width;  // rates
    EXPECT_TRUE((block(200).back() + "   ").starts_with(block(width).back() + "   ")) << width;
  }
}

// The last devices first, then the last lines; never what limits the slowest.
TEST(LiveText, WhatThereIsNoRoomForIsLeftOut) {
  std::vector<LiveRow> rows(3, row());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].device = "cuda:" + std::to_string(i);
  rows[2].stats.t_x = rows[2].stats.t_step = 5e-3;
  const auto first_words = [&](std::size_t height) {
    std::string words;
    for (const std::string& line : live_text(rows, {.width = 100, .height = height})) {
      words += line.substr(0, line.find(' ', 2)) + "|";
    }
    return words;
  };
  const std::string one = "|  reader|  21.3|";
  const std::string slowest = "cuda:2,|  The|  would|  copy|  compute|  OE|";
  const std::string all = "cuda:0" + one + "cuda:1" + one + "cuda:2" + one + slowest;
  EXPECT_EQ(first_words(100), all);
  EXPECT_EQ(first_words(16), all);
  EXPECT_EQ(first_words(15), "cuda:0" + one + "cuda:2" + one + "  and|" + slowest);
  EXPECT_EQ(first_words(10), "cuda:2" + one + "  and|" + slowest);
  EXPECT_EQ(first_words(7), "cuda:2" + one + "  and|cuda:2,|  The|  would|");
  EXPECT_EQ(first_words(2), "cuda:2|  reader|");
}

}  // namespace text_test
}  // namespace leat::feeder
