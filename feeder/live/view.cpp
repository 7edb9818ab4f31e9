#include "leat/feeder/live/view.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "leat/csp/base/start_thread.h"
#include "leat/feeder/stats/figures.h"

namespace leat::feeder {
namespace {

constexpr std::size_t kMostColumns = 120;
constexpr std::chrono::milliseconds kLook{1000 / kLooksPerSecond};
constexpr std::chrono::seconds kStopped{1};

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Refuses a descriptor that is not open for writing. Otherwise returns a new one for the same: of
// what cannot be sought, a terminal or a pipe, one whose writes do not wait. O_NONBLOCK on the
// caller's descriptor would be for everybody who shares it; therefore these are opened anew.
int open_to_write(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags == -1 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_RDONLY) {
    throw std::invalid_argument("leat: live.fd is " + std::to_string(fd) +
                                ", which is not open for writing");
  }
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int anew = lseek(fd, 0, SEEK_CUR) != -1
                       ? -1
                       : ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  return anew != -1 ? anew : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

}  // namespace

std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else if ((text[i] & 0xC0) != 0x80) {
      ++count;
    }
  }
  return count;
}

LiveScreen::LiveScreen(int fd)
    : fd_(open_to_write(fd)),
      is_terminal_(isatty(fd_) != 0 && !environment("TERM").empty() &&
                   environment("TERM") != "dumb") {}

LiveScreen::~LiveScreen() {
  if (is_terminal_) flock(fd_, LOCK_UN);  // a process that was forked has it open, too
  ::close(fd_);
}

// One line less than the terminal has: behind the block is a line for the cursor, since what has
// scrolled away cannot be drawn over.
LiveStyle LiveScreen::style() const {
  LiveStyle style{
      .is_terminal = is_terminal_, .unicode = is_utf8(), .colour = environment("NO_COLOR").empty()};
  winsize size{};
  if (ioctl(fd_, TIOCGWINSZ, &size) != 0) return style;
  if (size.ws_col > 0) style.width = std::min<std::size_t>(size.ws_col, kMostColumns);
  if (size.ws_row > 0) style.height = size.ws_row - 1U;
  return style;
}

void LiveScreen::show(const std::vector<std::string>& lines,
                      std::chrono::steady_clock::time_point now) {
  // The terminal is locked until this ends. To lock it again has no effect.
  if (is_terminal_ && flock(fd_, LOCK_EX | LOCK_NB) != 0) return;
  const pid_t job = tcgetpgrp(fd_);  // -1: not known
  const bool is_hidden = is_terminal_ && job != -1 && job != getpgrp();
  if (is_hidden || now - std::exchange(shown_at_, now) > kStopped) drawn_.clear();
  if (is_hidden) return;
  write_rest();
  if (!rest_.empty()) return;
  if (is_terminal_) {
    // A terminal that has become narrower has wrapped the lines.
    const std::size_t width = style().width;
    std::size_t rows = 0;
    for (const std::size_t one : drawn_)
      rows += std::max<std::size_t>((one + width - 1) / width, 1);
    rest_ = rows == 0 ? "\r" : "\r\x1b[" + std::to_string(rows) + "A";
    drawn_.resize(lines.size());
    std::ranges::transform(lines, drawn_.begin(), columns);
  }
  // Cleared before it is written: behind a line as wide as the terminal, the cursor is on its last
  // character.
  for (const std::string& line : lines) rest_ += (is_terminal_ ? "\x1b[K" : "") + line + "\n";
  if (is_terminal_) rest_ += "\x1b[J";
  write_rest();
}

// As much as the descriptor takes now: what is ready takes PIPE_BUF bytes whole, if it is a pipe.
void LiveScreen::write_rest() {
  while (!rest_.empty()) {
    pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
    if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
    const ssize_t written =
        ::write(fd_, rest_.data(), std::min<std::size_t>(rest_.size(), PIPE_BUF));
    if (written <= 0) return;
    rest_.erase(0, static_cast<std::size_t>(written));
  }
}

LiveView::LiveView(int fd, Text text)
    : screen_(fd),
      text_(std::move(text)),
      thread_(start_thread<std::jthread>("the thread of the live view", [this] { run(); })) {}

void LiveView::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // a closed pipe is then EPIPE, and no signal
  const std::future<void> end = end_.get_future();
  bool is_over = false;
  for (int look = 1; !is_over; ++look) {
    is_over = end.wait_for(kLook) == std::future_status::ready;
    const LiveStyle style = screen_.style();
    const std::vector<std::string> lines = text_(style);
    if (style.is_terminal || is_over || look % kLooksPerSecond == 0) screen_.show(lines);
  }
}

}  // namespace leat::feeder
