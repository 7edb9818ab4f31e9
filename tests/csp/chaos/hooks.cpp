#include "leat/csp/base/hooks.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>

namespace leat::hooks {
namespace {

thread_local constinit int t_locks = 0;

// Not inlined, as all that uses a thread-local here: no address of one is kept across a switch of
// fibers.
__attribute__((noinline)) void count_locks(int change) noexcept { t_locks += change; }
__attribute__((noinline)) void check_no_lock() noexcept {
  if (t_locks == 0) return;
  t_locks = 0;  // the message may allocate
  std::fprintf(stderr, "a spin lock is held over an allocation\n");
  std::abort();
}

}  // namespace

__attribute__((noinline)) void sleep_sometimes() noexcept {
  thread_local constinit unsigned random = 0;
  // Threads have different sequences, by the address of `random`.
  const auto of_thread = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(&random) >> 11U);
  random = random * 1664525U + 1013904223U + of_thread * 2U;
  if ((random >> 8U) % LEAT_CHAOS != 0) return;
  const timespec up_to_64_us{0, static_cast<long>((random >> 20U) % 64U) * 1000};
  nanosleep(&up_to_64_us, nullptr);
}

void before_lock(const std::atomic<std::uint32_t>& /*word*/) noexcept { count_locks(1); }
void before_unlock(const std::atomic<std::uint32_t>& /*word*/) noexcept { count_locks(-1); }

}  // namespace leat::hooks

void* operator new(std::size_t size) {
  leat::hooks::check_no_lock();
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  leat::hooks::check_no_lock();
  const auto step = static_cast<std::size_t>(alignment);
  if (void* const memory = std::aligned_alloc(step, (size + step - 1) / step * step)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
