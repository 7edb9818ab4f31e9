#include "leat/csp/base/random.h"

#include <sys/random.h>

#include <chrono>

#include "leat/csp/base/hooks.h"

namespace leat {

std::uint64_t random_seed() noexcept {
  std::uint64_t seed = 0;
  if (kExploring) return seed;  // the explorer makes every choice
  if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed)) return seed;
  // Early at boot the kernel has none yet.
  return mix(
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
}

}  // namespace leat
