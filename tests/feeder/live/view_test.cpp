// A live view on a terminal, in a pipe, and where nobody reads.
#include "leat/feeder/live/view.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <initializer_list>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/feeder/live/text.h"
#include "tests/feeder/live/terminal.h"

namespace leat::feeder {
namespace view_test {

using namespace std::chrono_literals;

using Lines = std::vector<std::string>;

// What a terminal shows behind `above` once `block` was drawn, with the line of the cursor.
Lines shown_as(const Lines& block, Lines above = {}) {
  above.insert(above.end(), block.begin(), block.end());
  above.emplace_back();
  return above;
}

Lines shown_by(const Terminal& terminal) {
  return (Shown() << read_all(terminal.master.get())).lines();
}

TEST(LiveScreen, DrawsABlockOverTheOneBefore) {
  const Environment environment(kTerminal);
  const Terminal terminal;
  LiveScreen screen(terminal.fd.get());
  screen.show({"one", "block", "of three lines"});
  const std::string first = read_all(terminal.master.get());
  EXPECT_EQ((Shown() << first).lines(), shown_as({"one", "block", "of three lines"}));
  screen.show({"another one"});
  EXPECT_EQ((Shown() << first << read_all(terminal.master.get())).lines(),
            shown_as({"another one"}));
}

// A terminal that has become narrower has wrapped the block. `Shown` has been narrow from the
// start, which looks the same.
TEST(LiveScreen, DrawsOverABlockOfAnotherWidth) {
  const Environment environment(kTerminal);
  const auto shown = [](unsigned short width, unsigned short then) {
    const Terminal terminal(width);
    LiveScreen screen(terminal.fd.get());
    Shown as_shown(then);
    as_shown << "above\r\n";
    for (const unsigned short now : {width, then, then}) {
      terminal.resize(now);
      const std::string wide(now - std::size_t{2}, 'x');
      screen.show({"short", wide, "", wide});
      as_shown << read_all(terminal.master.get());
    }
    return as_shown.lines();
  };
  for (const unsigned short then : std::initializer_list<unsigned short>{10, 25, 60, 79, 80, 100}) {
    const std::string wide(then - std::size_t{2}, 'x');
    EXPECT_EQ(shown(80, then), shown_as({"short", wide, "", wide}, {"above"})) << then;
  }
}

// What has stopped the process has written to the terminal, for instance a shell.
TEST(LiveScreen, BeginsANewBlockAfterTheProcessWasStopped) {
  const Environment environment(kTerminal);
  const Terminal terminal;
  LiveScreen screen(terminal.fd.get());
  const std::chrono::steady_clock::time_point start{};
  screen.show({"before"}, start + 1h);
  ASSERT_EQ(write(terminal.fd.get(), "$ fg\n", 5), 5);
  screen.show({"behind"}, start + 1h + 2s);
  screen.show({"and so on"}, start + 1h + 3s);
  EXPECT_EQ(shown_by(terminal), shown_as({"and so on"}, {"before", "$ fg"}));
}

// Ctrl-S: nothing is written, and nobody waits.
TEST(LiveScreen, WaitsForNoTerminalThatIsStopped) {
  const Environment environment(kTerminal);
  const Terminal terminal;
  LiveScreen screen(terminal.fd.get());
  ASSERT_EQ(tcflow(terminal.fd.get(), TCOOFF), 0);
  for (int i = 0; i < 10; ++i) screen.show({"left out", std::to_string(i)});
  EXPECT_EQ(read_all(terminal.master.get()), "");
  ASSERT_EQ(tcflow(terminal.fd.get(), TCOON), 0);
  screen.show({"goes on"});
  EXPECT_EQ(shown_by(terminal), shown_as({"goes on"}));
}

// poll(2) tells of room on it until the last byte is taken. Then what was cut off is ended, and the
// next block comes over it.
TEST(LiveScreen, WaitsForNoTerminalThatIsFull) {
  const Environment environment(kTerminal);
  const Terminal terminal;
  LiveScreen screen(terminal.fd.get());
  ASSERT_EQ(write(terminal.fd.get(), "above\n", 6), 6);
  const std::string wide(70, '.');
  for (int i = 0; i < 1000; ++i) screen.show({wide, wide, wide});
  std::string written = read_all(terminal.master.get());
  ASSERT_LT(written.size(), 900U * 3 * wide.size()) << "it was never full";
  screen.show({"goes on"});
  written += read_all(terminal.master.get());
  EXPECT_EQ((Shown() << written).lines(), shown_as({"goes on"}, {"above"}));
}

TEST(LiveScreen, WritesLinesWhereNoTerminalIs) {
  const Pipe pipe;
  const Terminal terminal;
  struct Case {
    const char* term;
    int fd;
    int read_end;
    const char* written;
  };
  for (const Case& one :
       {Case{"xterm", pipe.to.get(), pipe.from.get(), "one\ntwo\nthree\n"},
        Case{"dumb", terminal.fd.get(), terminal.master.get(), "one\r\ntwo\r\nthree\r\n"},
        Case{"", terminal.fd.get(), terminal.master.get(), "one\r\ntwo\r\nthree\r\n"},
        Case{nullptr, terminal.fd.get(), terminal.master.get(), "one\r\ntwo\r\nthree\r\n"}}) {
    const Environment environment(std::map<std::string, const char*>{{"TERM", one.term}});
    LiveScreen screen(one.fd);
    EXPECT_FALSE(screen.style().is_terminal);
    screen.show({"one", "two"});
    screen.show({"three"});
    EXPECT_EQ(read_all(one.read_end), one.written);
  }
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

// What scrolled or was wrapped could not be drawn over.
TEST(LiveScreen, ABlockIsDrawnOverOnATerminalOfAnySize) {
  const Environment environment(kTerminal);
  struct Size {
    unsigned short width, height;
  };
  std::vector<Size> sizes = {{.width = 80, .height = 0}};  // some tell none
  for (unsigned short i = 1; i < 20; ++i) sizes.push_back({.width = 80, .height = i});
  for (unsigned short i = 1; i < 70; ++i) sizes.push_back({.width = i, .height = 40});
  for (const auto& [width, height] : sizes) {
    const Terminal terminal(width, height);
    LiveScreen screen(terminal.fd.get());
    Shown shown(width, height == 0 ? 40 : height);
    const LiveStyle style{.width = width, .height = height - std::size_t{1}};
    for (int i = 0; i < 3; ++i) {
      screen.show(live_text(std::vector(2, row()), screen.style()));
      shown << read_all(terminal.master.get());
    }
    EXPECT_EQ(shown.lines(), shown_as(live_text(std::vector(2, row()), style)))
        << width << " x " << height;
  }
}

// More bytes than a pipe takes whole; and the terminal is wider than a block may be.
TEST(LiveScreen, ALargeBlockIsShownToItsEnd) {
  const Environment environment({{"TERM", "xterm"}, {"LC_ALL", "C.UTF-8"}, {"NO_COLOR", nullptr}});
  const Terminal terminal(130);
  LiveScreen screen(terminal.fd.get());
  Shown shown(130);
  for (int i = 0; i < 3; ++i) {
    screen.show(live_text(std::vector(8, row()), screen.style()));
    const std::string written = read_all(terminal.master.get());
    EXPECT_GT(written.size(), 4096U);
    EXPECT_EQ((shown << written).lines(),
              shown_as(live_text(std::vector(8, row()), {.width = 120})));
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
  first->show({"first"});
  second->show({"second, too early"});
  third.show({"third, too early"});
  elsewhere.show({"elsewhere"});
  EXPECT_EQ(shown_by(other), shown_as({"elsewhere"}));
  first.reset();
  second->show({"second"});
  third.show({"third, too early"});
  second->show({"second again"});
  second.reset();
  third.show({"third"});
  EXPECT_EQ(shown_by(terminal), shown_as({"third"}, {"first", "second again"}));
}

TEST(LiveScreen, ADescriptorThatIsNotOpenForWritingIsRefused) {
  const Pipe pipe;
  const Fd file(::open("/dev/null", O_RDONLY));
  const Fd path(::open("/dev/null", O_PATH));
  EXPECT_NO_THROW(LiveScreen(pipe.to.get()));
  for (const int fd : {-1, pipe.from.get(), file.get(), path.get()}) {
    try {
      const LiveScreen screen(fd);
      ADD_FAILURE() << fd << " was taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(error.what(),
                "leat: live.fd is " + std::to_string(fd) + ", which is not open for writing");
    }
  }
}

}  // namespace view_test
}  // namespace leat::feeder
