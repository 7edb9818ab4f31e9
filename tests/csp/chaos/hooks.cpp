#include "leat/csp/explore/hooks.h"

#include <ctime>

namespace leat::hooks {

// Not inlined: no address of a thread-local is kept across a switch of fibers.
__attribute__((noinline)) void sleep_sometimes() noexcept {
  thread_local unsigned random = 0;
  // Threads have different sequences, by the address of `random`.
  random = random * 1664525U + 1013904223U +
           static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(&random) >> 11U) * 2U;
  if ((random >> 8U) % LEAT_CHAOS != 0) return;
  const timespec up_to_64_us{0, static_cast<long>((random >> 20U) % 64U) * 1000};
  nanosleep(&up_to_64_us, nullptr);
}

}  // namespace leat::hooks
