// A live view on a terminal, in a pipe, and where nobody reads.
#include "leat/feeder/live.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/feeder/live_screen.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/tests/support/numbers.h"

namespace leat::feeder {
namespace {

using support::Numbers;

// Environment variables as they are told, until the end of the test.
class Environment {
 public:
  explicit Environment(const std::map<std::string, const char*>& values) {
    for (const auto& [name, value] : values) {
      const char* const was = std::getenv(name.c_str());
      before_[name] = was == nullptr ? std::nullopt : std::optional<std::string>(was);
      set(name, value);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) set(name, value ? value->c_str() : nullptr);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static void set(const std::string& name, const char* value) {
    if (value == nullptr) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value, 1);
    }
  }
  std::map<std::string, std::optional<std::string>> before_;
};

const std::map<std::string, const char*> kTerminal = {
    {"TERM", "xterm"}, {"LC_ALL", "C.UTF-8"}, {"NO_COLOR", "1"}};

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() { close(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

// What can be read now, and no more.
std::string read_all(int fd) {
  std::string text;
  for (;;) {
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLIN) == 0) return text;
    std::array<char, 4096> bytes{};
    const ssize_t length = ::read(fd, bytes.data(), bytes.size());
    if (length <= 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(length));
  }
}

// A terminal of 80 columns: `fd` is the program's end.
struct Terminal {
  Terminal() : master(posix_openpt(O_RDWR | O_NOCTTY)), fd(open_slave(master.get())) { resize(80); }
  static int open_slave(int master) {
    if (grantpt(master) != 0 || unlockpt(master) != 0) return -1;
    return ::open(ptsname(master), O_RDWR | O_NOCTTY);
  }
  void resize(unsigned short columns) const {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(ioctl(fd.get(), TIOCSWINSZ, &size), 0);
  }
  Fd master;
  Fd fd;
};

// What a terminal shows of `written`: as much of one as the view needs.
std::vector<std::string> shown(const std::string& written) {
  std::vector<std::string> lines(1);
  std::size_t row = 0;
  std::size_t at = 0;  // bytes
  for (std::size_t i = 0; i < written.size(); ++i) {
    const char c = written[i];
    if (c == '\r') {
      at = 0;
    } else if (c == '\n') {
      if (++row == lines.size()) lines.emplace_back();
    } else if (c != '\x1b') {
      lines[row].resize(at);  // the view only ever writes whole lines
      lines[row] += c;
      ++at;
    } else {
      const std::size_t end = written.find_first_of("AJKm", i);
      if (end == std::string::npos) {
        ADD_FAILURE() << "an unknown control sequence";
        return lines;
      }
      if (written[end] == 'A') row -= std::stoul(written.substr(i + 2));
      if (written[end] == 'J') {
        lines.resize(row + 1);
        lines[row].resize(at);
      }
      if (written[end] == 'K') lines[row].resize(at);
      i = end;
    }
  }
  return lines;
}

std::vector<LiveRow> rows(const char* device, std::uint64_t done) {
  LiveRow row;
  row.device = device;
  row.done = done;
  row.total = 10;
  return {row};
}

std::vector<std::string> block_of(const std::vector<LiveRow>& rows, std::size_t width) {
  std::vector<std::string> lines = live_block(rows, {.width = width});
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
  EXPECT_EQ(shown(written), block_of(two, 80));
  screen.show(rows("host:0", 2));  // which has fewer lines
  written += read_all(terminal.master.get());
  EXPECT_EQ(shown(written), block_of(rows("host:0", 2), 80));
}

TEST(LiveScreen, LeavesABlockOfAnotherWidthAlone) {
  const Environment environment(kTerminal);
  const Terminal terminal;
  LiveScreen screen(terminal.fd.get());
  screen.show(rows("host:0", 1));
  terminal.resize(50);
  screen.show(rows("host:0", 2));
  std::vector<std::string> both = live_block(rows("host:0", 1), {.width = 80});
  for (const std::string& line : block_of(rows("host:0", 2), 50)) both.push_back(line);
  EXPECT_EQ(shown(read_all(terminal.master.get())), both);
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
  EXPECT_EQ(shown(read_all(terminal.master.get())), block_of(rows("host:0", 2), 80));
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
  EXPECT_EQ(shown(written), block_of(rows("host:0", 1), 80));
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
  EXPECT_EQ(shown(written), block);
}

void consume_all(int fd, Live live) {
  live.fd = fd;
  const Numbers data({.size = 32});
  const gpu::Device device = gpu::open("host");
  Prefetcher feed(data, device, {.batch_size = 4, .live = live});
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (Lease& batch : feed.epoch(static_cast<std::uint64_t>(epoch))) batch.release();
  }
}

TEST(Live, SaysAtTheEndHowFarTheLoopCame) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const Fd from(ends[0]);
  const Fd to(ends[1]);
  consume_all(to.get(), {});
  EXPECT_NE(read_all(from.get()).find("host:0: epoch 1, 8 of 8 (100 %), "), std::string::npos);
  consume_all(to.get(), {.batches = 20});
  EXPECT_NE(read_all(from.get()).find("host:0: epoch 1, 16 of 20 (80 %), "), std::string::npos);
}

TEST(Live, APipeThatIsFullOrThatNobodyReadsHoldsUpNothing) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_NONBLOCK), 0);
  Fd from(ends[0]);
  const Fd to(ends[1]);
  const std::string much(1 << 16, '.');
  while (write(to.get(), much.data(), much.size()) > 0) continue;
  consume_all(to.get(), {});
  std::string text = read_all(from.get());
  EXPECT_EQ(text.find_first_not_of('.'), std::string::npos);
  from.close();
  consume_all(to.get(), {});  // no SIGPIPE
}

TEST(Live, ADescriptorThatIsNotOpenIsRefused) {
  try {
    consume_all(-1, {});
    ADD_FAILURE() << "it was taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "leat: live.fd is -1, which is no open file descriptor");
  }
}

}  // namespace
}  // namespace leat::feeder
