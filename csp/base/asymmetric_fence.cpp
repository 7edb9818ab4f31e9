#include "leat/csp/base/asymmetric_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace leat {

std::atomic<bool> has_membarrier{false};

void prepare_heavy_fence() noexcept {
  if constexpr (kExploring) return;
  // A static is initialised once, and thread-safe. The call fails on an old kernel or under a
  // seccomp filter, which is no error.
  static const bool registered =
      syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  if (registered) has_membarrier.store(true, std::memory_order_relaxed);
}

void heavy_fence() noexcept {
  // Does not check has_membarrier first: the frequent side may have seen it set earlier.
  prepare_heavy_fence();
  full_fence();
  if (has_membarrier.load(std::memory_order_relaxed)) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  }
}

}  // namespace leat
