// How much memory the process holds: for tests of what must not grow.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

#include "leat/csp/base/sanitizers.h"

#if defined(LEAT_ASAN) || defined(LEAT_TSAN)
// Of the sanitizers' interface; gcc does not ship the header that declares it.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();  // NOLINT
#endif

namespace leat::support {

/// Bytes of the process that are in the machine's memory now.
inline std::size_t resident_bytes() {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// From now on the process's address space grows by at most `bytes`: what needs more fails. For a
/// child process, and not for one with a sanitizer, which needs far more.
inline bool limit_growth(std::size_t bytes) {
  std::size_t total = 0;
  std::ifstream("/proc/self/statm") >> total;
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = total * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + bytes;
  return setrlimit(RLIMIT_AS, &limit) == 0;
}

/// Bytes in use now: allocated ones where a sanitizer counts them, else resident ones, which grow
/// by pages.
inline std::size_t memory_in_use() {
#if defined(LEAT_ASAN) || defined(LEAT_TSAN)
  return __sanitizer_get_current_allocated_bytes();
#else
  return resident_bytes();
#endif
}

}  // namespace leat::support
