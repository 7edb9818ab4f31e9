#include "leat/feeder/live/screen.h"

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
#include <vector>

namespace leat::feeder {
namespace {

// What a pipe takes whole (pipe(7)): written at a time.
constexpr std::size_t kMostToWrite = 4096;
constexpr std::size_t kMostColumns = 120;

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

// As setlocale() would find out, whether the program calls it or not. Locales' names are written
// in many ways.
bool is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string locale(environment(name));
    if (locale.empty()) continue;
    for (char& c : locale) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

struct Size {
  std::size_t columns = 80;
  std::size_t rows = ~std::size_t{0};  // not known: as many as there are lines
};

Size size_of(int fd) {
  Size size;
  winsize found{};
  if (ioctl(fd, TIOCGWINSZ, &found) != 0) return size;
  if (found.ws_col > 0) size.columns = std::min<std::size_t>(found.ws_col, kMostColumns);
  if (found.ws_row > 0) size.rows = found.ws_row;
  return size;
}

// Nothing is to be written where the program itself could not.
int checked(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags != -1 && (flags & O_PATH) == 0 && (flags & O_ACCMODE) != O_RDONLY) return fd;
  throw std::invalid_argument(
      "leat: live.fd is " + std::to_string(fd) +
      (flags == -1 ? ", which is no open file descriptor" : ", which is not open for writing"));
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
    : fd_(checked(fd)),
      own_(open_anew(fd)),
      is_terminal_(isatty(fd) != 0 && !environment("TERM").empty() &&
                   environment("TERM") != "dumb"),
      turn_(fd),
      style_{.width = size_of(fd).columns,
             .unicode = is_utf8(),
             .colour = environment("NO_COLOR").empty()} {
  // The first to begin has it, not the first to show.
  if (is_terminal_) static_cast<void>(turn_.take());
}

LiveScreen::~LiveScreen() {
  if (own_ >= 0) ::close(own_);
}

// Up to the first line of the block that is there, and a new one over it. One of another width has
// been wrapped by the terminal: it stays. What scrolls could not be drawn over: behind the block is
// a line for the cursor.
std::string LiveScreen::block(std::span<const LiveRow> rows) {
  const Size size = size_of(fd_);
  if (size.columns != style_.width) drawn_ = 0;
  style_.width = size.columns;
  style_.height = size.rows - 1;
  std::string text = drawn_ == 0 ? "\r" : "\r\x1b[" + std::to_string(drawn_) + "A";
  const std::vector<std::string> lines = live_block(rows, style_);
  // Cleared before it is written: behind a line as wide as the terminal, the cursor is on its last
  // character.
  if (style_.height == 0) {
    drawn_ = 0;
    for (const std::string& line : lines) text += "\x1b[K" + line;
    return text;
  }
  for (const std::string& line : lines) text += "\x1b[K" + line + "\n";
  drawn_ = lines.size();
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
  const std::size_t most = own_ < 0 && isatty(fd_) != 0 ? 1 : kMostToWrite;
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
    if (!turn_.take()) return;
    const std::size_t drawn = drawn_;
    const std::size_t width = style_.width;
    if (!write(block(rows))) drawn_ = width == style_.width ? drawn : 0;
    return;
  }
  for (const LiveRow& row : rows) {
    if (!write(live_line(row) + "\n")) return;
  }
}

}  // namespace leat::feeder
