#include "leat/csp/wait/spin_lock.h"

#include <algorithm>

#include "leat/csp/wait/futex.h"

namespace leat {

// Doubling pauses keep the cache line with its holder; after about 20,000 of them the holder has
// most likely lost its CPU, and giving ours away is the only way to get it running again.
void SpinLock::lock_contended() noexcept {
  constexpr int kFirstPauses = 64;
  constexpr int kMostPauses = 1024;
  constexpr int kPausesBeforeYield = 20'000;
  int burst = kFirstPauses;
  int total = 0;
  for (;;) {
    for (int i = 0; i < burst; ++i) cpu_relax();
    total += burst;
    burst = std::min(2 * burst, kMostPauses);
    if (word_.load(std::memory_order_relaxed) == 0 &&
        word_.exchange(1, std::memory_order_acquire) == 0) {
      return;
    }
    if (total > kPausesBeforeYield) {
      yield_cpu();
      total = 0;
    }
  }
}

}  // namespace leat
