// Linux futexes on an Atomic<std::uint32_t>: how an OS thread sleeps until a word changes.
//
// The word's address is all that futex_wake needs: it may be called after the word's owner has
// gone (a spurious wake-up of whoever sleeps on that address now, and every sleeper re-checks).
#pragma once

#include <cstdint>

#include "leat/csp/base/atomic.h"
#include "leat/csp/clock.h"

namespace leat {

/// Sleeps while `word` equals `expected`, until woken, `deadline` (CLOCK_MONOTONIC) or spuriously.
void futex_wait(const Atomic<std::uint32_t>& word, std::uint32_t expected,
                Deadline deadline) noexcept;

/// Wakes one thread sleeping on the address `word`; dereferences nothing.
void futex_wake(const Atomic<std::uint32_t>* word) noexcept;

/// Likewise all threads.
void futex_wake_all(const Atomic<std::uint32_t>* word) noexcept;

/// Tells the CPU that this is a spin-wait loop.
inline void cpu_relax() noexcept {
  hooks::spin();
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Gives the CPU to another thread: whoever is waited for has most likely lost its own.
void yield_cpu() noexcept;

}  // namespace leat
