#include "leat/feeder/live/view.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace leat::feeder {
namespace {

constexpr std::size_t kMostColumns = 120;
constexpr std::size_t kMostToWrite = 4096;  // a pipe takes so much whole (pipe(7))
constexpr std::chrono::milliseconds kFrame{100};
constexpr int kFramesPerLine = 10;  // where there is no terminal

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

// As setlocale() would find out, whether the program calls it or not.
bool is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (environment(name).empty()) continue;
    const char* const locale = environment(name).data();
    return strcasestr(locale, "utf-8") != nullptr || strcasestr(locale, "utf8") != nullptr;
  }
  return false;
}

// Refuses a descriptor that is not open for writing. Otherwise returns a new one for the same: of a
// terminal or pipe one whose writes do not wait. O_NONBLOCK on the caller's descriptor would be for
// everybody who shares it; therefore these are opened anew.
int open_to_write(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags == -1 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_RDONLY) {
    throw std::invalid_argument(
        "leat: live.fd is " + std::to_string(fd) +
        (flags == -1 ? ", which is no open file descriptor" : ", which is not open for writing"));
  }
  struct stat status {};
  if (isatty(fd) != 0 || (fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode))) {
    const int anew = ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                            O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (anew >= 0) return anew;
  }
  return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

}  // namespace

LiveScreen::LiveScreen(int fd)
    : fd_(open_to_write(fd)),
      is_terminal_(isatty(fd_) != 0 && !environment("TERM").empty() &&
                   environment("TERM") != "dumb") {
  static_cast<void>(has_terminal());  // the first to begin has it
}

LiveScreen::~LiveScreen() {
  if (is_terminal_) flock(fd_, LOCK_UN);  // a process that was forked has it open, too
  ::close(fd_);
}

// The terminal is locked until this ends. To lock it again has no effect.
bool LiveScreen::has_terminal() const { return is_terminal_ && flock(fd_, LOCK_EX | LOCK_NB) == 0; }

// One line less than the terminal has: behind the block is a line for the cursor, since what has
// scrolled away cannot be drawn over.
LiveStyle LiveScreen::style() const {
  LiveStyle style{.unicode = is_utf8(), .colour = environment("NO_COLOR").empty()};
  winsize size{};
  if (ioctl(fd_, TIOCGWINSZ, &size) != 0) return style;
  if (size.ws_col > 0) style.width = std::min<std::size_t>(size.ws_col, kMostColumns);
  if (size.ws_row > 0) style.height = size.ws_row - 1U;
  return style;
}

void LiveScreen::show(const std::vector<std::string>& lines) {
  std::string text;
  if (!is_terminal_) {
    for (const std::string& line : lines) text += line + "\n";
    static_cast<void>(write(text));
    return;
  }
  if (!has_terminal()) return;
  // A block of another width has been wrapped by the terminal: it stays.
  const std::size_t width = style().width;
  if (width != width_) drawn_ = 0;
  width_ = width;
  text = drawn_ == 0 ? "\r" : "\r\x1b[" + std::to_string(drawn_) + "A";
  // Cleared before it is written: behind a line as wide as the terminal, the cursor is on its last
  // character.
  for (const std::string& line : lines) text += "\x1b[K" + line + "\n";
  if (write(text + "\x1b[J")) drawn_ = lines.size();
}

// Returns whether `text` was begun. What was begun before comes first.
bool LiveScreen::write(const std::string& text) {
  rest_ += text;
  while (!rest_.empty()) {
    pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
    if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) break;
    const ssize_t written = ::write(fd_, rest_.data(), std::min(rest_.size(), kMostToWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    rest_.erase(0, static_cast<std::size_t>(written));
  }
  const bool is_begun = rest_.size() < text.size();
  if (!is_begun) rest_.resize(rest_.size() - text.size());
  return is_begun;
}

LiveView::LiveView(int fd, Text text)
    : screen_(fd),
      text_(std::move(text)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

LiveView::LiveView(const Live& live, LiveSource source)
    : LiveView(live.fd, [rows = std::make_shared<LiveRows>(live, std::move(source))](
                            const LiveStyle* terminal) {
        const std::span<const LiveRow> now = rows->update();
        if (terminal != nullptr) return live_block(now, *terminal);
        std::vector<std::string> lines;
        for (const LiveRow& row : now) lines.push_back(live_line(row));
        return lines;
      }) {}

void LiveView::run(const std::stop_token& stop) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // a closed pipe is then EPIPE, and no signal
  std::mutex mutex;
  std::condition_variable_any end;
  for (int frame = 1; true; ++frame) {
    {
      std::unique_lock lock(mutex);
      end.wait_for(lock, stop, kFrame, [] { return false; });
    }
    const bool is_over = stop.stop_requested();
    const LiveStyle style = screen_.style();
    const std::vector<std::string> lines = text_(screen_.is_terminal() ? &style : nullptr);
    if (screen_.is_terminal() || is_over || frame % kFramesPerLine == 0) screen_.show(lines);
    if (is_over) return;
  }
}

}  // namespace leat::feeder
