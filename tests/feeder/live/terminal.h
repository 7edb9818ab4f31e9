// For the tests of live views: a device, a pseudo terminal to write to, and what one would show.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/feeder/live/rows.h"

namespace leat::feeder {

/// Copies of 1 ms beside work of 3 ms, read by two workers in 4 ms each.
inline LiveRow row() {
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

/// Environment variables until the end of the test; null: unset.
class Environment {
 public:
  explicit Environment(const std::map<std::string, const char*>& values) {
    for (const auto& [name, value] : values) {
      const char* const was = std::getenv(name.c_str());
      before_[name] = was == nullptr ? std::nullopt : std::optional<std::string>(was);
      set(name.c_str(), value);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) set(name.c_str(), value ? value->c_str() : nullptr);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static void set(const char* name, const char* value) {
    static_cast<void>(value == nullptr ? unsetenv(name) : setenv(name, value, 1));
  }
  std::map<std::string, std::optional<std::string>> before_;
};

inline const std::map<std::string, const char*> kTerminal = {
    {"TERM", "xterm"}, {"LC_ALL", "C.UTF-8"}, {"NO_COLOR", "1"}};

/// A file descriptor that is closed at the end.
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

/// What can be read now, and no more.
inline std::string read_all(int fd) {
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

/// A pipe; `to` is the program's end.
struct Pipe {
  Pipe() : Pipe(ends()) {}
  explicit Pipe(const std::array<int, 2>& ends) : from(ends[0]), to(ends[1]) {}
  static std::array<int, 2> ends() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    return ends;
  }
  Fd from;
  Fd to;
};

/// A pseudo terminal; `fd` is the program's end.
struct Terminal {
  explicit Terminal(unsigned short columns = 80, unsigned short rows = 40)
      : master(posix_openpt(O_RDWR | O_NOCTTY)), fd(open_slave(master.get())) {
    resize(columns, rows);
  }
  static int open_slave(int master) {
    if (grantpt(master) != 0 || unlockpt(master) != 0) return -1;
    return ::open(ptsname(master), O_RDWR | O_NOCTTY);
  }
  void resize(unsigned short columns, unsigned short rows = 40) const {
    const winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(ioctl(fd.get(), TIOCSWINSZ, &size), 0);
  }
  Fd master;
  Fd fd;
};

/// What a terminal shows, as much of one as the view needs: like xterm's, the cursor stays on the
/// last column once that is written, and the next character goes to the next line.
class Shown {
 public:
  explicit Shown(std::size_t columns = 80, std::size_t rows = 40)
      : columns_(columns), rows_(rows) {}

  Shown& operator<<(const std::string& written) {
    for (std::size_t i = 0; i < written.size(); ++i) {
      const char c = written[i];
      if (c == '\r') {
        column_ = 0;
      } else if (c == '\n') {
        down();
      } else if (c == '\x1b') {
        const std::size_t end = written.find_first_of("AJKm", i);
        if (end == std::string::npos) {
          ADD_FAILURE() << "an unknown control sequence";
          return *this;
        }
        control(written[end], written.substr(i + 2, end - i - 2));
        i = end;
      } else if ((c & 0xC0) == 0x80) {
        lines_[row_].back() += c;
      } else {
        put(c);
      }
    }
    return *this;
  }
  /// Those that were scrolled away among them; the last is where the cursor is.
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& cells : lines_) {
      lines.emplace_back();
      for (const std::string& cell : cells) lines.back() += cell;
    }
    return lines;
  }

 private:
  void down() {
    if (++row_ == lines_.size()) lines_.emplace_back();
    top_ = std::max(top_, row_ + 1 - std::min(rows_, row_ + 1));
  }
  void put(char c) {
    if (column_ == columns_) {
      column_ = 0;
      down();
    }
    lines_[row_].resize(column_);  // the view only ever writes whole lines
    lines_[row_].emplace_back(1, c);
    ++column_;
  }
  void control(char what, const std::string& number) {
    if (what == 'm') return;
    column_ = std::min(column_, columns_ - 1);
    if (what == 'A') row_ = std::max(top_, row_ - std::min<std::size_t>(row_, std::stoul(number)));
    if (what == 'J') lines_.resize(row_ + 1);
    if (what != 'A') lines_[row_].resize(std::min(column_, lines_[row_].size()));
  }

  const std::size_t columns_;
  const std::size_t rows_;
  std::vector<std::vector<std::string>> lines_{1};
  std::size_t top_ = 0;
  std::size_t row_ = 0;
  std::size_t column_ = 0;
};

}  // namespace leat::feeder
