// The threads of this process, and a system that has no more: `ulimit -u`, a container's limit on
// pids.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace leat::support {

/// How many threads the process has. The first call starts one, because a sanitizer adds one of its
/// own to a process's first: that one is there whenever threads are counted.
inline std::size_t threads() {
  static const bool has_begun = (std::thread([] {}).join(), true);
  static_cast<void>(has_begun);
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

/// Whether the process soon has no more: the system counts one that was joined for a moment.
inline bool threads_become(std::size_t count) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads() > count && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return threads() <= count;
}

/// Whether this process can start threads from now on. For a child process (in_child()): root, to
/// whom no limit applies, becomes `nobody`.
inline void allow_threads(bool allowed) {
  threads();  // its first call needs a thread
  constexpr uid_t kNobody = 65534;
  if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) {
    throw std::runtime_error("root cannot become nobody here");
  }
  rlimit limit{};
  getrlimit(RLIMIT_NPROC, &limit);
  limit.rlim_cur = allowed ? limit.rlim_max : 1;  // the user has this process
  setrlimit(RLIMIT_NPROC, &limit);
}

}  // namespace leat::support
