// Linux futexes on an Atomic<std::uint32_t>: an OS thread sleeps until a word changes.
//
// futex_wake needs only the word's address, so it may be called after the word is gone. A thread
// that sleeps on the same address by then wakes for nothing; every sleeper checks its word again.
#pragma once

#include <cstdint>

#include "leat/csp/base/atomic.h"
#include "leat/csp/clock.h"

namespace leat {

/// Blocks the calling thread while `word` equals `expected`. Returns after a wake-up, at `deadline`
/// (CLOCK_MONOTONIC), or for no reason; the caller checks the word again.
void futex_wait(const Atomic<std::uint32_t>& word, std::uint32_t expected,
                Deadline deadline) noexcept;

/// Wakes one thread that sleeps on the address `word`. Does not dereference it.
void futex_wake(const Atomic<std::uint32_t>* word) noexcept;

/// Wakes all threads that sleep on the address `word`. Does not dereference it.
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

/// Called where a fiber lets others run, for it may wait for what another thread does. The threads
/// of an explored program (csp/explore.h) have to be let run, too; the system's run by themselves.
inline void let_threads_run() noexcept { hooks::pause(); }

/// Lets another thread run on this CPU. For a thread that waits for a thread without a CPU.
void yield_cpu() noexcept;

}  // namespace leat
