// A live view on a terminal, in a pipe, and where nobody reads.
#include "leat/feeder/live/view.h"

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
namespace view_test {

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

void show(LiveScreen& screen, const std::vector<LiveRow>& rows) {
  screen.show(live_block(rows, screen.style()));
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
  show(screen, two);
  std::string written = read_all(terminal.master.get());
  EXPECT_EQ((Shown() << written).lines(), block_of(two, {}));
  show(screen, rows("host:0", 2));  // which has fewer lines
  written += read_all(terminal.master.get());
  EXPECT_EQ((Shown() << written).lines(), block_of(rows("host:0", 2), {}));
}

TEST(LiveScreen, LeavesABlockOfAnotherWidthAlone) {
  const Environment environment(kTerminal);
  const Terminal terminal;
  LiveScreen screen(terminal.fd.get());
  show(screen, rows("host:0", 1));
  terminal.resize(50);
  show(screen, rows("host:0", 2));
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
  for (std::uint64_t i = 0; i < 10; ++i) show(screen, rows("host:0", i));
  EXPECT_EQ(read_all(terminal.master.get()), "");
  ASSERT_EQ(tcflow(terminal.fd.get(), TCOON), 0);
  show(screen, rows("host:0", 2));
  EXPECT_EQ((Shown() << read_all(terminal.master.get())).lines(), block_of(rows("host:0", 2), {}));
}

// poll(2) tells of room on it until the last byte is taken. Then what was cut off is ended, and the
// next block comes over it.
TEST(LiveScreen, WaitsForNoTerminalThatIsFull) {
  const Environment environment(kTerminal);
  const Terminal terminal;
  LiveScreen screen(terminal.fd.get());
  for (std::uint64_t i = 0; i < 1000; ++i) show(screen, rows("host:0", i));
  std::string written = read_all(terminal.master.get());
  ASSERT_LT(written.size(), 900U * 80) << "it was never full";
  for (std::uint64_t i = 0; i < 2; ++i) show(screen, rows("host:0", i));
  written += read_all(terminal.master.get());
  EXPECT_EQ((Shown() << written).lines(), block_of(rows("host:0", 1), {}));
}

TEST(LiveScreen, WritesLinesWhereNoTerminalIs) {
  const auto lines_with = [](const char* term, int fd, int read_end, const std::string& end) {
    const Environment environment(std::map<std::string, const char*>{{"TERM", term}});
    LiveScreen screen(fd);
    EXPECT_FALSE(screen.is_terminal());
    screen.show({live_line(rows("host:0", 1)[0])});
    screen.show({live_line(rows("host:0", 2)[0])});
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

// Names of locales are written in many ways.
TEST(LiveScreen, IsInAsciiWhereTheLocaleIsNotUtf8) {
  const auto style = [](const char* lc_all, const char* lang, const char* no_colour) {
    const Environment environment({{"TERM", "xterm"},
                                   {"LC_ALL", lc_all},
                                   {"LC_CTYPE", nullptr},
                                   {"LANG", lang},
                                   {"NO_COLOR", no_colour}});
    const Terminal terminal;
    return LiveScreen(terminal.fd.get()).style();
  };
  for (const char* locale : {"C.UTF-8", "C.utf8", "de_DE.Utf8", "en_US.utf-8", "de_DE.UTF8@euro"}) {
    EXPECT_TRUE(style(locale, "C", "1").unicode) << locale;
    EXPECT_TRUE(style(nullptr, locale, "1").unicode) << locale;
  }
  for (const char* locale : {"C", "POSIX", "de_DE", "de_DE.ISO-8859-1"}) {
    EXPECT_FALSE(style(locale, "C.UTF-8", "1").unicode) << locale;
  }
  EXPECT_FALSE(style("C", "C", "1").colour);
  EXPECT_TRUE(style("C", "C", nullptr).colour);
}

// What scrolled could not be drawn over.
TEST(LiveScreen, ABlockIsLowerThanTheTerminal) {
  const Environment environment(kTerminal);
  for (unsigned short height = 1; height < 20; ++height) {
    const Terminal terminal(80, height);
    LiveScreen screen(terminal.fd.get());
    Shown shown(80, height);
    for (std::uint64_t i = 0; i < 5; ++i) {
      show(screen, measured(2, i));
      shown << read_all(terminal.master.get());
    }
    EXPECT_EQ(shown.scrolled(), 0U) << height;
    EXPECT_EQ(shown.lines(), block_of(measured(2, 4), {.height = height - 1U})) << height;
  }
}

TEST(LiveScreen, ATerminalMayTellNoHeight) {
  const Environment environment(kTerminal);
  const Terminal terminal(80, 0);
  LiveScreen screen(terminal.fd.get());
  show(screen, measured(2, 1));
  EXPECT_EQ((Shown() << read_all(terminal.master.get())).lines(), block_of(measured(2, 1), {}));
}

TEST(LiveScreen, WhatIsDrawnOnANarrowTerminalIsDrawnOver) {
  const Environment environment(kTerminal);
  for (unsigned short width = 1; width < 60; ++width) {
    const Terminal terminal(width);
    LiveScreen screen(terminal.fd.get());
    Shown shown(width);
    for (std::uint64_t i = 0; i < 5; ++i) {
      show(screen, measured(2, i));
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
    show(screen, measured(8, 2500 + i));
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
  show(elsewhere, rows("host:0", 1));
  EXPECT_NE(read_all(other.master.get()), "");
  show(*second, rows("host:2", 1));
  show(third, rows("host:3", 1));
  EXPECT_EQ(read_all(terminal.master.get()), "");
  show(*first, rows("host:1", 1));
  Shown shown;
  shown << read_all(terminal.master.get());
  first.reset();
  show(*second, rows("host:2", 2));
  show(third, rows("host:3", 2));
  show(*second, rows("host:2", 3));
  shown << read_all(terminal.master.get());
  std::vector<std::string> both = live_block(rows("host:1", 1), {});
  for (const std::string& line : block_of(rows("host:2", 3), {})) both.push_back(line);
  EXPECT_EQ(shown.lines(), both);
  second.reset();
  show(third, rows("host:3", 3));
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

}  // namespace view_test
}  // namespace leat::feeder
