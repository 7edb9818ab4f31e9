#include "leat/csp/base/futex.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <limits>

namespace leat {

#if defined(LEAT_EXPLORE)

void futex_wait(const Atomic<std::uint32_t>& word, std::uint32_t expected,
                Deadline deadline) noexcept {
  hooks::sleep_on(word.raw(), expected, deadline.at().time_since_epoch().count());
}
void futex_wake(const Atomic<std::uint32_t>* word) noexcept { hooks::wake(word, false); }
void futex_wake_all(const Atomic<std::uint32_t>* word) noexcept { hooks::wake(word, true); }
void yield_cpu() noexcept { hooks::pause(); }

#else

void futex_wait(const Atomic<std::uint32_t>& word, std::uint32_t expected,
                Deadline deadline) noexcept {
  timespec until{};
  const timespec* timeout = nullptr;
  if (!deadline.is_never()) {
    const auto since_epoch = deadline.at().time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
    until.tv_sec = seconds.count();
    until.tv_nsec = (since_epoch - seconds).count();
    timeout = &until;
  }
  // FUTEX_WAIT_BITSET because its timeout is an absolute CLOCK_MONOTONIC time: a spurious wake-up
  // does not lengthen the wait.
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, timeout, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(const Atomic<std::uint32_t>* word) noexcept {
  syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, nullptr, nullptr, 0);
}

void futex_wake_all(const Atomic<std::uint32_t>* word) noexcept {
  syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, std::numeric_limits<int>::max(),
          nullptr, nullptr, 0);
}

void yield_cpu() noexcept { sched_yield(); }

#endif

}  // namespace leat
