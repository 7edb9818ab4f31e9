#include "leat/feeder/live_screen.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
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

// A terminal or pipe anew, as O_NONBLOCK on the caller's descriptor would be for all who share it.
// poll(2) alone is not enough: it tells of some room, and a write of more waits for the rest.
int open_anew(int fd) {
  struct stat status {};
  const bool is_pipe = fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
  if (!is_pipe && isatty(fd) == 0) return -1;
  return ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

bool has_room(int fd) {
  pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
  return poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0;
}

}  // namespace

LiveScreen::LiveScreen(int fd)
    : fd_(fd),
      own_(open_anew(fd)),
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

LiveScreen::~LiveScreen() {
  if (own_ >= 0) ::close(own_);
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

// False where nothing of it was begun. What was begun before comes first.
bool LiveScreen::write(const std::string& text) {
  if (!finish()) return false;
  rest_ = text;
  if (finish() || rest_.size() < text.size()) return true;
  rest_.clear();
  return false;
}

// False where something is left over. A descriptor that takes nothing any more, an error, is one
// that has no room.
bool LiveScreen::finish() {
  const int fd = own_ >= 0 ? own_ : fd_;
  // One that waits takes a byte where poll(2) tells of room, on a terminal, and is never full where
  // it is a file.
  const std::size_t most = own_ < 0 && isatty(fd_) != 0 ? 1 : kMostBytes;
  while (!rest_.empty()) {
    if (!has_room(fd)) return false;
    const ssize_t written = ::write(fd, rest_.data(), std::min(rest_.size(), most));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    rest_.erase(0, static_cast<std::size_t>(written));
  }
  return true;
}

void LiveScreen::show(std::span<const LiveRow> rows) {
  if (is_terminal_) {
    const std::size_t drawn = drawn_;
    if (!write(block(rows))) drawn_ = drawn;
    return;
  }
  for (const LiveRow& row : rows) {
    if (!write(live_line(row) + "\n")) return;
  }
}

}  // namespace leat::feeder
