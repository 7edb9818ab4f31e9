#include "leat/csp/base/spin_lock.h"

#include <algorithm>

#include "leat/csp/base/futex.h"
#include "leat/csp/base/tuning.h"

namespace leat {

// Bursts of pauses, each twice as long as the one before, leave the cache line to the lock's
// holder. After kPausesBeforeYield the holder has most likely lost its CPU. Then this thread yields
// its own, so that the holder can run.
void SpinLock::lock_contended() noexcept {
  int burst = tuning::kFirstPauses;
  int total = 0;
  for (;;) {
    for (int i = 0; i < burst; ++i) cpu_relax();
    total += burst;
    burst = std::min(2 * burst, tuning::kMostPauses);
    if (word_.load(std::memory_order_relaxed) == 0 &&
        word_.exchange(1, std::memory_order_acquire) == 0) {
      return;
    }
    if (total > tuning::kPausesBeforeYield) {
      yield_cpu();
      total = 0;
    }
  }
}

}  // namespace leat
