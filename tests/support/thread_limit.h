// The threads of this process, and a system that has no more: `ulimit -u`, a container's limit on
// pids.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

namespace leat::support {

/// Whether a thread, a folder of /proc/self/task, is about to go: the system lists one that was
/// joined for a moment.
inline bool is_ending(const std::filesystem::path& thread) {
  constexpr unsigned long kExiting = 4;  // the kernel's PF_EXITING
  std::string line;
  std::getline(std::ifstream(thread / "stat"), line);
  std::size_t at = line.rfind(')');          // behind the name, which may hold anything
  if (at == std::string::npos) return true;  // it has gone
  for (int field = 3; field <= 9; ++field) at = line.find(' ', at + 1);
  return (std::stoul(line.substr(at)) & kExiting) != 0;
}

/// How many threads the process has. The first call starts one, because a sanitizer adds one of its
/// own to a process's first: that one is there whenever threads are counted.
inline std::size_t threads() {
  static const bool has_begun = (std::thread([] {}).join(), true);
  static_cast<void>(has_begun);
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::count_if(
      begin(tasks), end(tasks), [](const auto& one) { return !is_ending(one.path()); }));
}

/// Whether the process soon has no more.
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
