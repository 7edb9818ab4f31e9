// Sockets and pipes for the tests of csp/io.h, and when somebody waits for them.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <string>
#include <utility>

#include "leat/csp/scheduler.h"
#include "tests/support/run.h"

namespace leat::support {

/// Two ends, which are non-blocking, and closed by the destructor: of a pair of sockets, or [0]
/// reads from a pipe and [1] writes to it.
class Ends {
 public:
  static Ends sockets() {
    Ends ends;
    // Not socketpair(): ThreadSanitizer takes a wait for an earlier descriptor with one of these
    // numbers for a race.
    EXPECT_EQ(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                      ends.ends_.data()),
              0);
    return ends;
  }
  static Ends of_pipe() {
    Ends ends;
    EXPECT_EQ(pipe2(ends.ends_.data(), O_NONBLOCK | O_CLOEXEC), 0);
    return ends;
  }
  Ends(Ends&& other) noexcept : ends_(std::exchange(other.ends_, {-1, -1})) {}
  Ends& operator=(Ends&&) = delete;
  ~Ends() {
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
  }
  [[nodiscard]] int operator[](std::size_t i) const { return ends_[i]; }
  /// The caller closes this end, or has closed it.
  int give(std::size_t i) { return std::exchange(ends_[i], -1); }

 private:
  Ends() = default;
  std::array<int, 2> ends_ = {-1, -1};
};

/// What one read gives, 100 bytes at most; "" at the end, "EAGAIN".
inline std::string take(int fd) {
  std::array<char, 100> text;
  const ssize_t size = read(fd, text.data(), text.size());
  if (size < 0) return errno == EAGAIN ? "EAGAIN" : "errno " + std::to_string(errno);
  return {text.data(), static_cast<std::size_t>(size)};
}

inline void put(int fd, const std::string& text) {
  EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

/// Writes until there is no more room.
inline void fill(int fd) {
  const std::string much(4096, 'x');
  while (write(fd, much.data(), much.size()) > 0) {
  }
}
inline void drain(int fd) {
  while (take(fd) != "EAGAIN") {
  }
}

/// Runs `body` on a fiber, with each number of workers.
inline void on_fibers(const std::function<void()>& body) {
  on_each_worker_count([&](const SchedulerOptions& options) { run(body, options); });
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Returns when `count` fibers of the caller's scheduler wait for `fd` to be `what`, "readable" or
/// "writable".
inline void until_waited_for(int fd, const std::string& what = "readable", int count = 1) {
  const std::string line = "\"descriptor " + std::to_string(fd) + " is " + what + "\"";
  for (int found = -1; found < count; yield()) {
    const std::string text = dump();
    found = 0;
    for (std::size_t at = 0; (at = text.find(line, at)) != std::string::npos; ++at) ++found;
  }
}

}  // namespace leat::support
