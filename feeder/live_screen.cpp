#include "leat/feeder/live_screen.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace leat::feeder {
namespace {

// What a pipe takes whole (pipe(7)), and a terminal unless it was stopped: a block has to be
// smaller, and is at this width.
constexpr std::size_t kMostBytes = 4096;
constexpr std::size_t kMostColumns = 120;

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

// As setlocale() would find out, whether the program calls it or not.
bool is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = environment(name);
    if (locale.empty()) continue;
    return locale.find("UTF-8") != std::string_view::npos ||
           locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

std::size_t columns_of(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return std::min<std::size_t>(size.ws_col, kMostColumns);
}

// False where it could not be written, or not at once.
bool write_now(int fd, std::string_view text) {
  pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
  if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return false;
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

LiveScreen::LiveScreen(int fd)
    : fd_(fd),
      is_terminal_(isatty(fd) != 0 && !environment("TERM").empty() &&
                   environment("TERM") != "dumb"),
      style_{.width = columns_of(fd),
             .unicode = is_utf8(),
             .colour = environment("NO_COLOR").empty()} {
  if (fcntl(fd, F_GETFD) == -1) {
    throw std::invalid_argument("leat: live.fd is " + std::to_string(fd) +
                                ", which is no open file descriptor");
  }
}

// Up to the first line of the block that is there, and a new one over it. One of another width has
// been wrapped by the terminal: it stays.
std::string LiveScreen::block(std::span<const LiveRow> rows) {
  const std::size_t width = columns_of(fd_);
  if (width != style_.width) drawn_ = 0;
  style_.width = width;
  std::string text = drawn_ == 0 ? "\r" : "\r\x1b[" + std::to_string(drawn_) + "A";
  std::size_t lines = 0;
  for (const std::string& line : live_block(rows, style_)) {
    const std::string whole = line + "\x1b[K\n";
    if (text.size() + whole.size() + 3 > kMostBytes) break;
    text += whole;
    ++lines;
  }
  drawn_ = lines;
  return text + "\x1b[J";
}

void LiveScreen::show(std::span<const LiveRow> rows) {
  if (is_terminal_) {
    const std::size_t drawn = drawn_;
    if (!write_now(fd_, block(rows))) drawn_ = drawn;
    return;
  }
  for (const LiveRow& row : rows) {
    const std::string line = live_line(row) + "\n";
    if (!write_now(fd_, line)) return;
  }
}

}  // namespace leat::feeder
