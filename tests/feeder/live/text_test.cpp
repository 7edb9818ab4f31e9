// What a live view says, exactly.
#include "leat/feeder/live/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace leat::feeder {
namespace text_test {

// Copies of 1 ms beside work of 3 ms, read by two workers in 4 ms each.
LiveRow row() {
  LiveRow row;
  row.device = "cuda:0";
  row.epoch = 2;
  row.done = 1'204;
  row.total = 5'000;
  row.steps_per_second = 333.3;
  row.samples_per_second = 21'331;
  row.done_per_second = 333.3;
  row.filled = 2;
  row.ready = 1;
  row.stats.batches = 1'204;
  row.stats.sampled_steps = 5;
  row.stats.workers = 2;
  row.stats.device_slots = 2;
  row.stats.pinned_slots = 4;
  row.stats.batch_bytes = 4e6;
  row.stats.t_read = 4e-3;
  row.stats.t_x = 1e-3;
  row.stats.t_c = 3e-3;
  row.stats.t_step = 3e-3;
  row.stats.reader = {.busy = 2.0 / 3, .starved = 0, .blocked = 1.0 / 3};
  row.stats.copier = {.busy = 1.0 / 3, .starved = 0, .blocked = 2.0 / 3};
  row.stats.consumer = {.busy = 1, .starved = 0, .blocked = 0};
  return row;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text = "\n";
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string block(const std::vector<LiveRow>& rows, const LiveStyle& style) {
  return joined(live_block(rows, style));
}

TEST(LiveText, OneDevice) {
  EXPECT_EQ(block({row()}, {.width = 80}), R"(
cuda:0  epoch 2  ████▏              1204 of 5000 (24 %)   333 steps/s   ETA 0:11
  reader █████▍    67 % ─► copier ██▋       33 % ─► consumer ████████ 100 % ◄
  21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready
  copy                ██████           ▓▓▓▓▓▓            ██████           ▓▓▓▓▓▓
  compute ██████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓██████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
  OE 1.000   Tstep 3.00 ms   Tc 3.00 ms   Tx 1.00 ms   bubble 0.00 ns
  The consumer limits the loop (Tc is 100.0 % of the step): reading and copying
  are hidden behind it, and only a faster step helps.
)");
}

TEST(LiveText, InAscii) {
  EXPECT_EQ(block({row()}, {.width = 80, .unicode = false}), R"(
cuda:0  epoch 2  ####.............  1204 of 5000 (24 %)   333 steps/s   ETA 0:11
  reader #####...  67 % -> copier ###.....  33 % -> consumer ######## 100 % <
  21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready
  copy                ######           ======            ######           ======
  compute ##################=================##################=================
  OE 1.000   Tstep 3.00 ms   Tc 3.00 ms   Tx 1.00 ms   bubble 0.00 ns
  The consumer limits the loop (Tc is 100.0 % of the step): reading and copying
  are hidden behind it, and only a faster step helps.
)");
}

TEST(LiveText, TakingTurns) {
  LiveRow serial = row();
  serial.stats.t_step = 4e-3;
  serial.stats.device_slots = 1;
  serial.stats.consumer = {.busy = 0.75, .starved = 0.25, .blocked = 0};
  EXPECT_EQ(block({serial}, {.width = 60}), R"(
cuda:0  epoch 2  █▉        1204 of 5000 (24 %)   333 steps/s
  reader ██   67 % ─► copier █    33 % ─► consumer ██▎  75 %
  21.3 k samples/s   1.33 GB/s
  copy             ████         ▓▓▓         ████         ▓▓▓
  compute █████████    ▓▓▓▓▓▓▓▓▓   █████████    ▓▓▓▓▓▓▓▓▓   
  OE 0.750   Tstep 4.00 ms   Tc 3.00 ms   Tx 1.00 ms
  Copies and compute take turns, because prefetch_depth is
  1: with 2 they overlap, and a step takes max(Tc, Tx) =
  3.00 ms instead of 4.00 ms.
)");
}

TEST(LiveText, SeveralDevicesAndTheSlowestOfThem) {
  std::vector<LiveRow> rows(2, row());
  rows[1].device = "cuda:1";
  rows[1].stats.t_x = 5e-3;
  rows[1].stats.t_step = 5e-3;
  EXPECT_EQ(block(rows, {.width = 100}), R"(
cuda:0  epoch 2  ████████▉                              1204 of 5000 (24 %)   333 steps/s   ETA 0:11
  reader ██████████       67 % ─► copier █████            33 % ─► consumer ███████████████ 100 % ◄
  21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready
cuda:1  epoch 2  ████████▉                              1204 of 5000 (24 %)   333 steps/s   ETA 0:11
  reader ██████████       67 % ─► copier █████            33 % ◄ ─► consumer ███████████████ 100 %
  21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready
cuda:1, the slowest:
  copy    ███████████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓███████████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
  compute ██████████████         ▓▓▓▓▓▓▓▓▓▓▓▓▓         ██████████████         ▓▓▓▓▓▓▓▓▓▓▓▓▓         
  OE 1.000   Tstep 5.00 ms   Tc 3.00 ms   Tx 5.00 ms   bubble 0.00 ns   Tread 4.00 ms / 2
  The link limits the loop (Tx is 100.0 % of the step): fewer bytes per sample, or a faster link,
  would help.
)");
}

TEST(LiveText, BeforeAnythingIsKnown) {
  LiveRow fresh;
  fresh.device = "host:0";
  EXPECT_EQ(block({fresh}, {.width = 80}), R"(
host:0  epoch 0  0   ? steps/s
  reader              ? ─► copier              ? ─► consumer              ?
  ? samples/s   ? B/s   slots: 0 of 0 filled, 0 of 0 ready
  no step was sampled yet
)");
  EXPECT_EQ(live_line(fresh), "host:0: epoch 0, 0, ? steps/s, ? samples/s, ? B/s");
}

// Steps are timed, and no copy was.
TEST(LiveText, BeforeTheLinkIsKnown) {
  LiveRow some = row();
  some.stats.t_x = 0;
  some.stats.copier = {};
  const std::string all = block({some}, {.width = 80});
  EXPECT_NE(all.find(" ─► copier              ? ─► consumer ████████ 100 %\n"), std::string::npos)
      << all;
  EXPECT_NE(all.find("\n  copy    ?\n  compute ███"), std::string::npos) << all;
  EXPECT_NE(all.find("\n  OE ?   Tstep 3.00 ms   Tc 3.00 ms   Tx ?   bubble ?"), std::string::npos)
      << all;
  EXPECT_NE(all.find("No copy was timed"), std::string::npos) << all;
  const std::string line = live_line(some);
  EXPECT_NE(line.find("   copier ?   consumer 100.0 %   OE ?   Tstep"), std::string::npos) << line;
  EXPECT_EQ(line.find("limits"), std::string::npos) << line;
}

// Of a common epoch, the other devices take their parts: it is over sooner than at one's rate.
TEST(LiveText, TheTimeLeftIsOfWhatMakesTheProgress) {
  LiveRow shared = row();
  shared.done_per_second = 4 * 333.3;
  EXPECT_NE(live_line(shared).find("333 steps/s"), std::string::npos);
  EXPECT_NE(live_line(shared).find("ETA 0:03 "), std::string::npos);
}

TEST(LiveText, ALine) {
  EXPECT_EQ(live_line(row()),
            "cuda:0: epoch 2, 1204 of 5000 (24 %), 333 steps/s, 21.3 k samples/s, 1.33 GB/s   ETA "
            "0:11   reader 66.7 %   copier 33.3 %   consumer 100.0 % (limits)   OE 1.000   Tstep "
            "3.00 ms   Tc 3.00 ms   Tx 1.00 ms   bubble 0.00 ns   Tread 4.00 ms / 2");
}

TEST(LiveText, RatesHaveThreeDigits) {
  const auto samples = [](double rate) {
    LiveRow one = row();
    one.samples_per_second = rate;
    const std::string line = live_line(one);
    const std::size_t begin = line.find("steps/s, ") + 9;
    return line.substr(begin, line.find(" samples/s") - begin);
  };
  EXPECT_EQ(samples(0), "?");
  EXPECT_EQ(samples(0.25), "0.25");
  EXPECT_EQ(samples(9.994), "9.99");
  EXPECT_EQ(samples(9.996), "10.0");
  EXPECT_EQ(samples(99.96), "100");
  EXPECT_EQ(samples(999.6), "1.00 k");
  EXPECT_EQ(samples(2.5e9), "2.50 G");
}

// Colours take no columns, and none is left on.
TEST(LiveText, ColoursGoAroundTheSameText) {
  const std::vector<std::string> plain = live_block(std::vector{row()}, {.width = 80});
  const std::vector<std::string> coloured =
      live_block(std::vector{row()}, {.width = 80, .colour = true});
  ASSERT_EQ(plain.size(), coloured.size());
  std::size_t codes = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    std::string without;
    bool on = false;
    for (std::size_t at = 0; at < coloured[i].size(); ++at) {
      if (coloured[i][at] != '\x1b') {
        without += coloured[i][at];
        continue;
      }
      const std::size_t end = coloured[i].find('m', at);
      ASSERT_NE(end, std::string::npos);
      on = coloured[i].substr(at, end - at) != "\x1b[0";
      at = end;
      ++codes;
    }
    EXPECT_EQ(without, plain[i]);
    EXPECT_FALSE(on) << coloured[i];
  }
  EXPECT_GE(codes, 10U);
}

std::size_t columns(const std::string& text) {
  std::size_t count = 0;
  for (const char c : text) count += (c & 0xC0) != 0x80 ? std::size_t{1} : std::size_t{0};
  return count;
}

TEST(LiveText, NoLineIsWiderThanTheTerminal) {
  std::vector<LiveRow> rows(12, row());
  rows[3].total = 0;
  rows[4].done = rows[4].total = ~std::uint64_t{0};
  rows[5].steps_per_second = rows[5].done_per_second = 1e-9;
  rows[6].stats.t_x = 1e-9;
  rows[7].stats.t_c = 0;
  for (std::size_t width = 0; width < 200; ++width) {
    for (const bool unicode : {false, true}) {
      const std::vector<std::string> lines = live_block(rows, {.width = width, .unicode = unicode});
      EXPECT_LE(lines.size(), std::size_t{3 * 8 + 2 + 7}) << width;
      for (const std::string& line : lines) EXPECT_LE(columns(line), width) << line;
    }
  }
}

// A figure that is cut reads as another one.
TEST(LiveText, WhatDoesNotFitIsLeftOutWhole) {
  for (std::size_t width = 40; width < 120; ++width) {
    const std::vector<std::string> lines =
        live_block(std::vector{row()}, {.width = width, .unicode = false});
    EXPECT_TRUE(lines[0].ends_with("(24 %)") || lines[0].ends_with(" 333 steps/s") ||
                lines[0].ends_with(" ETA 0:11"))
        << lines[0];
    EXPECT_TRUE(lines[1].ends_with(" 33 %") || lines[1].ends_with(" 100 % <")) << lines[1];
    EXPECT_TRUE(lines[2].ends_with(" 1.33 GB/s") || lines[2].ends_with(" 1 of 2 ready"))
        << lines[2];
    EXPECT_TRUE(lines[5].ends_with(" ms") || lines[5].ends_with(" ns") ||
                lines[5].ends_with(" 4.00 ms / 2"))
        << lines[5];
  }
}

TEST(LiveText, Narrow) {
  EXPECT_EQ(block({row()}, {.width = 50, .height = 6}), R"(
cuda:0  epoch 2  1204 of 5000 (24 %)   333 steps/s
  reader  67 % ─► copier  33 % ─► consumer 100 % ◄
  21.3 k samples/s   1.33 GB/s
  copy           ███       ▓▓▓       ███       ▓▓▓
  compute ██████████▓▓▓▓▓▓▓▓▓▓██████████▓▓▓▓▓▓▓▓▓▓
  OE 1.000   Tstep 3.00 ms   Tc 3.00 ms
)");
  LiveRow many = row();
  many.done = 1'204'000;
  many.total = 5'000'000;
  EXPECT_EQ(live_block(std::vector{many}, {.width = 40})[0], "cuda:0  epoch 2  24 %   333 steps/s");
  EXPECT_EQ(live_block(std::vector{many}, {.width = 12})[0], "cuda:0  epoc");
}

// The sentence first, then other devices, from the last on; never the slowest; then the last lines.
TEST(LiveText, WhatThereIsNoRoomForIsLeftOut) {
  std::vector<LiveRow> rows(3, row());
  rows[1].device = "cuda:1";
  rows[2].device = "cuda:2";
  rows[2].stats.t_x = 5e-3;
  rows[2].stats.t_step = 5e-3;
  const auto first_words = [&](std::size_t height) {
    std::string words;
    for (const std::string& line : live_block(rows, {.width = 100, .height = height})) {
      words += line.substr(0, line.find(' ', 2)) + "|";
    }
    return words;
  };
  const std::string one = "|  reader|  21.3|";
  const std::string two = "|  copy|  compute|  OE|";
  const std::string sentence = "  The|  would|";
  EXPECT_EQ(first_words(100),
            "cuda:0" + one + "cuda:1" + one + "cuda:2" + one + "cuda:2," + two + sentence);
  EXPECT_EQ(first_words(16), first_words(100));
  EXPECT_EQ(first_words(15), "cuda:0" + one + "cuda:2" + one + "  and|cuda:2," + two + sentence);
  EXPECT_EQ(first_words(12), "cuda:2" + one + "  and|cuda:2," + two + sentence);
  EXPECT_EQ(first_words(8), "cuda:2" + one + "  and|cuda:2," + two);
  EXPECT_EQ(first_words(2), "cuda:2|  reader|");
  for (std::size_t height = 0; height < 40; ++height) {
    EXPECT_LE(live_block(rows, {.height = height}).size(), height);
  }
}

TEST(LiveText, TheSlowestIsAlwaysAmongThoseShown) {
  std::vector<LiveRow> rows(12, row());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].device = "cuda:" + std::to_string(i);
  rows[10].stats.t_step = 5e-3;
  const std::vector<std::string> lines = live_block(rows, {.width = 100});
  EXPECT_EQ(lines[0].substr(0, 7), "cuda:0 ");
  EXPECT_EQ(lines[18].substr(0, 7), "cuda:6 ");
  EXPECT_EQ(lines[21].substr(0, 8), "cuda:10 ");
  EXPECT_EQ(lines[24], "  and 4 devices more");
  EXPECT_EQ(lines[25], "cuda:10, the slowest:");
}

}  // namespace text_test
}  // namespace leat::feeder
