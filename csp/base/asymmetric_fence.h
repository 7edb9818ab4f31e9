// A pair of fences for two sides. The frequent side runs up to a hundred million times a second.
// The rare side runs when something is stopped or an idle worker goes to sleep.
//
//   frequent side:  write A;  light_fence();  read B
//   rare side:      write B;  heavy_fence();  read A
//
// At least one of the two reads sees the other side's write (Dekker's pattern). The rare side pays
// for the store barrier between write and read: it asks the kernel to run one on every CPU that
// runs this process, by membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED. Two light fences give no
// order between each other.
#pragma once

#include <atomic>

#include "leat/csp/base/hooks.h"

namespace leat {

/// Set once heavy_fence() can rely on the kernel. Read by light_fence().
extern std::atomic<bool> has_membarrier;

/// A store barrier on this CPU alone. Not std::atomic_thread_fence, which ThreadSanitizer rejects.
/// For that tool, other atomics publish the data that this fence orders.
inline void full_fence() noexcept {
#if defined(LEAT_EXPLORE)
  // One OS thread runs all simulated ones.
#elif defined(__x86_64__)
  asm volatile("lock; orl $0, (%%rsp)" ::: "memory", "cc");
#elif defined(__aarch64__)
  asm volatile("dmb ish" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// The frequent side: free where the kernel has membarrier, a store barrier elsewhere.
inline void light_fence() noexcept {
  if (__builtin_expect(has_membarrier.load(std::memory_order_relaxed), 1)) {
    asm volatile("" ::: "memory");  // for the compiler
  } else {
    full_fence();
  }
}

/// The rare side. Takes about a microsecond.
void heavy_fence() noexcept;

/// Asks the kernel for membarrier, once per process. Called before the first worker runs. A thread
/// that does not yet see has_membarrier set runs a store barrier itself.
void prepare_heavy_fence() noexcept;

}  // namespace leat
