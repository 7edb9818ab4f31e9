#include "leat/feeder/live/view.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
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

int checked(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags != -1 && (flags & O_PATH) == 0 && (flags & O_ACCMODE) != O_RDONLY) return fd;
  throw std::invalid_argument(
      "leat: live.fd is " + std::to_string(fd) +
      (flags == -1 ? ", which is no open file descriptor" : ", which is not open for writing"));
}

// O_NONBLOCK on the caller's descriptor would be for everybody who shares it; a terminal or pipe is
// opened anew instead.
int open_anew(int fd) {
  struct stat status {};
  const bool is_pipe = fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
  if (!is_pipe && isatty(fd) == 0) return -1;
  return ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

// The terminals that screens draw on, one each. Never destroyed: a prefetcher may be a static
// object.
struct Terminals {
  using Identity = std::tuple<dev_t, dev_t, ino_t>;  // one terminal may have many descriptors
  static Identity identity(int fd) {
    struct stat status {};
    fstat(fd, &status);
    return {status.st_rdev, status.st_dev, status.st_ino};
  }
  static Terminals& instance() {
    static Terminals& all = *new Terminals;
    return all;
  }
  std::mutex mutex;
  std::set<Identity> taken;
};

}  // namespace

LiveScreen::LiveScreen(int fd)
    : fd_(checked(fd)),
      own_(open_anew(fd)),
      is_terminal_(isatty(fd) != 0 && !environment("TERM").empty() &&
                   environment("TERM") != "dumb") {
  if (is_terminal_) static_cast<void>(has_terminal());  // the first to begin has it
}

LiveScreen::~LiveScreen() {
  if (own_ >= 0) ::close(own_);
  if (!has_terminal_) return;
  Terminals& all = Terminals::instance();
  const std::scoped_lock lock(all.mutex);
  all.taken.erase(Terminals::identity(fd_));
}

bool LiveScreen::has_terminal() {
  if (has_terminal_) return true;
  Terminals& all = Terminals::instance();
  const std::scoped_lock lock(all.mutex);
  return has_terminal_ = all.taken.insert(Terminals::identity(fd_)).second;
}

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

// Returns false if nothing of it was begun. What was begun before comes first.
bool LiveScreen::write(const std::string& text) {
  write_rest();
  if (!rest_.empty()) return false;
  rest_ = text;
  write_rest();
  if (rest_.size() < text.size() || text.empty()) return true;
  rest_.clear();
  return false;
}

void LiveScreen::write_rest() {
  const int fd = own_ >= 0 ? own_ : fd_;
  while (!rest_.empty()) {
    pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
    if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
    const ssize_t written = ::write(fd, rest_.data(), std::min(rest_.size(), kMostToWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest_.erase(0, static_cast<std::size_t>(written));
  }
}

LiveView::LiveView(int fd, Text text) : screen_(fd), text_(std::move(text)) {
  thread_ = std::thread([this] { run(); });
}

LiveView::LiveView(const Live& live, LiveSource source)
    : LiveView(live.fd, [rows = std::make_shared<LiveRows>(live, std::move(source))](
                            const LiveStyle* terminal) {
        const std::span<const LiveRow> now = rows->update();
        if (terminal != nullptr) return live_block(now, *terminal);
        std::vector<std::string> lines;
        for (const LiveRow& row : now) lines.push_back(live_line(row));
        return lines;
      }) {}

LiveView::~LiveView() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void LiveView::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // a closed pipe is then EPIPE, and no signal
  const bool is_terminal = screen_.is_terminal();
  for (int frame = 1; true; ++frame) {
    std::unique_lock lock(mutex_);
    const bool is_over = wake_.wait_for(lock, kFrame, [&] { return is_over_; });
    lock.unlock();
    const LiveStyle style = screen_.style();
    const std::vector<std::string> lines = text_(is_terminal ? &style : nullptr);
    if (is_terminal || is_over || frame % kFramesPerLine == 0) screen_.show(lines);
    if (is_over) return;
  }
}

}  // namespace leat::feeder
