// A live view on a terminal, in a pipe, and where nobody reads.
#include "leat/feeder/live/screen.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/feeder/live/terminal.h"

namespace leat::feeder {
namespace screen_test {

std::vector<LiveRow> rows(const char* device, std::uint64_t done) {
  LiveRow row;
  row.device = device;
  row.done = done;
  row.total = 10;
  return {row};
}

// Of devices whose steps were measured: all that a block can have.
std::vector<LiveRow> measured(std::size_t devices, std::uint64_t done) {
  std::vector<LiveRow> rows;
  for (std::size_t i = 0; i < devices; ++i) {
    LiveRow row;
    row.device = "host:" + std::to_string(i);
    row.done = done;
    row.total = 5000;
    row.steps_per_second = row.done_per_second = 333;
    row.samples_per_second = 21300;
    row.stats.sampled_steps = 100;
    row.stats.workers = 8;
    row.stats.device_slots = 2;
    row.stats.pinned_slots = 4;
    row.stats.batch_bytes = 4e6;
    row.stats.t_read = 1e-2;
    row.stats.t_x = 1e-3;
    row.stats.t_c = 2.9e-3;
    row.stats.t_step = 3e-3;
    row.stats.consumer.busy = 0.97;
    row.stats.copier.busy = 0.33;
    row.stats.reader.busy = 0.5;
    rows.push_back(row);
  }
  return rows;
}

std::vector<std::string> block_of(const std::vector<LiveRow>& rows, const LiveStyle& style) {
  std::vector<std::string> lines = live_block(rows, style);
  lines.emplace_back();  // where the cursor is
  return lines;
}

TEST(LiveScreen, DrawsABlockOverTheOneBefore) {
  const Environment environment(kTerminal);
  const Terminal terminal;
  LiveScreen screen(terminal.fd.get());
  EXPECT_TRUE(screen.is_terminal());
  std::vector<LiveRow> two = rows("host:0", 1);
  two.push_back(two[0]);
  screen.show(two);
  std::string written = read_all(terminal.master.get());
  EXPECT_EQ((Shown() << written).lines(), block_of(two, {}));
  screen.show(rows("host:0", 2));  // which has fewer lines
  written += read_all(terminal.master.get());
  EXPECT_EQ((Shown() << written).lines(), block_of(rows("host:0", 2), {}));
}

TEST(LiveScreen, LeavesABlockOfAnotherWidthAlone) {
  const Environment environment(kTerminal);
  const Terminal terminal;
  LiveScreen screen(terminal.fd.get());
  screen.show(rows("host:0", 1));
  terminal.resize(50);
  screen.show(rows("host:0", 2));
  std::vector<std::string> both = live_block(rows("host:0", 1), {.width = 80});
  for (const std::string& line : block_of(rows("host:0", 2), {.width = 50})) both.push_back(line);
  EXPECT_EQ((Shown() << read_all(terminal.master.get())).lines(), both);
}

// Ctrl-S: nothing is written, and nobody waits.
TEST(LiveScreen, LeavesOutWhatAStoppedTerminalDoesNotTake) {
  const Environment environment(kTerminal);
  const Terminal terminal;
  LiveScreen screen(terminal.fd.get());
  ASSERT_EQ(tcflow(terminal.fd.get(), TCOOFF), 0);
  for (std::uint64_t i = 0; i < 10; ++i) screen.show(rows("host:0", i));
  EXPECT_EQ(read_all(terminal.master.get()), "");
  ASSERT_EQ(tcflow(terminal.fd.get(), TCOON), 0);
  screen.show(rows("host:0", 2));
  EXPECT_EQ((Shown() << read_all(terminal.master.get())).lines(), block_of(rows("host:0", 2), {}));
}

// poll(2) tells of room on it until the last byte is taken. Then what was cut off is ended, and the
// next block comes over it.
TEST(LiveScreen, WaitsForNoTerminalThatIsFull) {
  const Environment environment(kTerminal);
  const Terminal terminal;
  LiveScreen screen(terminal.fd.get());
  for (std::uint64_t i = 0; i < 1000; ++i) screen.show(rows("host:0", i));
  std::string written = read_all(terminal.master.get());
  ASSERT_LT(written.size(), 900U * 80) << "it was never full";
  for (std::uint64_t i = 0; i < 2; ++i) screen.show(rows("host:0", i));
  written += read_all(terminal.master.get());
  EXPECT_EQ((Shown() << written).lines(), block_of(rows("host:0", 1), {}));
}

TEST(LiveScreen, WritesLinesWhereNoTerminalIs) {
  const auto lines_with = [](const char* term, int fd, int read_end, const std::string& end) {
    const Environment environment(std::map<std::string, const char*>{{"TERM", term}});
    LiveScreen screen(fd);
    EXPECT_FALSE(screen.is_terminal());
    screen.show(rows("host:0", 1));
    screen.show(rows("host:0", 2));
    EXPECT_EQ(read_all(read_end),
              live_line(rows("host:0", 1)[0]) + end + live_line(rows("host:0", 2)[0]) + end);
  };
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const Fd from(ends[0]);
  const Fd to(ends[1]);
  lines_with("xterm", to.get(), from.get(), "\n");
  const Terminal terminal;
  lines_with("dumb", terminal.fd.get(), terminal.master.get(), "\r\n");
  lines_with(nullptr, terminal.fd.get(), terminal.master.get(), "\r\n");
}

TEST(LiveScreen, IsInAsciiWhereTheLocaleIsNotUtf8) {
  const Environment environment({{"TERM", "xterm"},
                                 {"LC_ALL", nullptr},
                                 {"LC_CTYPE", nullptr},
                                 {"LANG", "C"},
                                 {"NO_COLOR", nullptr}});
  const Terminal terminal;
  LiveScreen screen(terminal.fd.get());
  screen.show(rows("host:0", 3));
  const std::string written = read_all(terminal.master.get());
  EXPECT_NE(written.find("\x1b[32m"), std::string::npos) << "no colour";
  std::vector<std::string> block = live_block(rows("host:0", 3), {.width = 80, .unicode = false});
  block.emplace_back();
  EXPECT_EQ((Shown() << written).lines(), block);
}

TEST(LiveScreen, NamesOfUtf8AreWrittenInManyWays) {
  const auto is_unicode = [](const char* locale) {
    const Environment environment({{"TERM", "xterm"}, {"LC_ALL", locale}, {"NO_COLOR", "1"}});
    const Terminal terminal;
    LiveScreen screen(terminal.fd.get());
    screen.show(rows("host:0", 3));
    return read_all(terminal.master.get()).find("─►") != std::string::npos;
  };
  for (const char* locale : {"C.UTF-8", "C.utf8", "de_DE.Utf8", "en_US.utf-8", "de_DE.UTF8@euro"}) {
    EXPECT_TRUE(is_unicode(locale)) << locale;
  }
  for (const char* locale : {"C", "POSIX", "de_DE", "de_DE.ISO-8859-1"}) {
    EXPECT_FALSE(is_unicode(locale)) << locale;
  }
}

// What scrolled could not be drawn over.
TEST(LiveScreen, ABlockIsLowerThanTheTerminal) {
  const Environment environment(kTerminal);
  for (unsigned short height = 1; height < 20; ++height) {
    const Terminal terminal(80, height);
    LiveScreen screen(terminal.fd.get());
    Shown shown(80, height);
    for (std::uint64_t i = 0; i < 5; ++i) {
      screen.show(measured(2, i));
      shown << read_all(terminal.master.get());
    }
    EXPECT_EQ(shown.scrolled(), 0U) << height;
    std::vector<std::string> block = live_block(measured(2, 4), {.height = height - 1U});
    if (height > 1) block.emplace_back();
    EXPECT_EQ(shown.lines(), block) << height;
  }
}

TEST(LiveScreen, ATerminalMayTellNoHeight) {
  const Environment environment(kTerminal);
  const Terminal terminal(80, 0);
  LiveScreen screen(terminal.fd.get());
  screen.show(measured(2, 1));
  EXPECT_EQ((Shown() << read_all(terminal.master.get())).lines(), block_of(measured(2, 1), {}));
}

TEST(LiveScreen, WhatIsDrawnOnANarrowTerminalIsDrawnOver) {
  const Environment environment(kTerminal);
  for (unsigned short width = 1; width < 60; ++width) {
    const Terminal terminal(width);
    LiveScreen screen(terminal.fd.get());
    Shown shown(width);
    for (std::uint64_t i = 0; i < 5; ++i) {
      screen.show(measured(2, i));
      shown << read_all(terminal.master.get());
    }
    EXPECT_EQ(shown.wrapped(), 0U) << width;
    EXPECT_EQ(shown.lines(), block_of(measured(2, 4), {.width = width})) << width;
  }
}

// More bytes than a pipe takes whole.
TEST(LiveScreen, ALargeBlockIsShownToItsEnd) {
  Environment environment({{"TERM", "xterm"}, {"LC_ALL", "C.UTF-8"}, {"NO_COLOR", nullptr}});
  const Terminal terminal(120);
  LiveScreen screen(terminal.fd.get());
  Shown shown(120);
  for (std::uint64_t i = 0; i < 3; ++i) {
    screen.show(measured(8, 2500 + i));
    const std::string written = read_all(terminal.master.get());
    EXPECT_GT(written.size(), 4096U);
    shown << written;
    EXPECT_EQ(shown.lines(), block_of(measured(8, 2500 + i), {.width = 120}));
  }
}

TEST(LiveScreen, OneAtATimeIsOnATerminal) {
  const Environment environment(kTerminal);
  const Terminal terminal;
  const Terminal other;
  const Fd again(dup(terminal.fd.get()));
  const Fd anew(::open(ptsname(terminal.master.get()), O_RDWR | O_NOCTTY));
  std::optional<LiveScreen> first(terminal.fd.get());
  std::optional<LiveScreen> second(again.get());
  LiveScreen third(anew.get());
  LiveScreen elsewhere(other.fd.get());
  elsewhere.show(rows("host:0", 1));
  EXPECT_NE(read_all(other.master.get()), "");
  second->show(rows("host:2", 1));
  third.show(rows("host:3", 1));
  EXPECT_EQ(read_all(terminal.master.get()), "");
  first->show(rows("host:1", 1));
  Shown shown;
  shown << read_all(terminal.master.get());
  first.reset();
  second->show(rows("host:2", 2));
  third.show(rows("host:3", 2));
  second->show(rows("host:2", 3));
  shown << read_all(terminal.master.get());
  std::vector<std::string> both = live_block(rows("host:1", 1), {});
  for (const std::string& line : block_of(rows("host:2", 3), {})) both.push_back(line);
  EXPECT_EQ(shown.lines(), both);
  second.reset();
  third.show(rows("host:3", 3));
  EXPECT_NE(read_all(terminal.master.get()).find("host:3"), std::string::npos);
}

TEST(LiveScreen, ADescriptorThatIsNotOpenForWritingIsRefused) {
  const auto what = [](int fd) -> std::string {
    try {
      const LiveScreen screen(fd);
      return "";
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const Fd from(ends[0]);
  const Fd to(ends[1]);
  const Fd file(::open("/dev/null", O_RDONLY));
  const Fd path(::open("/dev/null", O_PATH));
  for (const int fd : {from.get(), file.get(), path.get()}) {
    EXPECT_EQ(what(fd),
              "leat: live.fd is " + std::to_string(fd) + ", which is not open for writing");
  }
  EXPECT_EQ(what(to.get()), "");
  EXPECT_EQ(what(-1), "leat: live.fd is -1, which is no open file descriptor");
  EXPECT_EQ(read_all(from.get()), "");
}

}  // namespace screen_test
}  // namespace leat::feeder
