#include "leat/csp/base/hooks.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "leat/csp/base/sanitizers.h"
#include "leat/csp/explore/simulation.h"

#if defined(LEAT_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace leat::hooks {
namespace {

// Reuses memory only after all of it has been freed.
class Arena {
 public:
  void* allocate(std::size_t size) {
    if (low_ == nullptr) {
      void* const memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) throw std::bad_alloc();
      low_ = static_cast<std::byte*>(memory);
    }
    if (live_ == 0) used_ = 0;
    size = (size + kAlignment - 1) / kAlignment * kAlignment;
    if (size > kSize - used_) throw std::bad_alloc();
    void* const memory = low_ + used_;
    used_ += size;
    ++live_;
#if defined(LEAT_ASAN)
    __asan_unpoison_memory_region(memory, size);
#endif
    return memory;
  }
  void deallocate([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t size) noexcept {
    --live_;
#if defined(LEAT_ASAN)
    __asan_poison_memory_region(memory, size);
#endif
  }

 private:
  static constexpr std::size_t kSize = std::size_t{1} << 30;
  static constexpr std::size_t kAlignment = 64;
  std::byte* low_ = nullptr;
  std::size_t used_ = 0;
  std::size_t live_ = 0;
};

Arena arena;

}  // namespace

// Outside explorations these functions do nothing, except sleep_on() and fail().

bool active() noexcept { return Simulation::current() != nullptr; }

void sched_point() noexcept {
  if (Simulation* const simulation = Simulation::current()) simulation->sched_point();
}

void released() noexcept { sched_point(); }

void accessed(const void* object, bool changed) noexcept {
  if (Simulation* const simulation = Simulation::current()) simulation->accessed(object, changed);
}

void before_lock(const std::atomic<std::uint32_t>& word) noexcept {
  if (Simulation* const simulation = Simulation::current()) simulation->before_lock(word);
}

void before_unlock(const std::atomic<std::uint32_t>& word) noexcept {
  Simulation* const simulation = Simulation::current();
  if (simulation == nullptr) return;
  simulation->sched_point();
  simulation->accessed(&word, true);
}

void pause() noexcept {
  if (Simulation* const simulation = Simulation::current()) simulation->pause();
}

void spin() noexcept {
  if (Simulation* const simulation = Simulation::current()) simulation->spin();
}

Unobserved::Unobserved() noexcept : simulation_(Simulation::exchange_current(nullptr)) {}

Unobserved::~Unobserved() { Simulation::exchange_current(simulation_); }

std::size_t Unobserved::choose(std::size_t count) const noexcept {
  if (simulation_ == nullptr) return 0;
  Simulation::exchange_current(simulation_);
  const std::size_t choice = simulation_->choose(count);
  Simulation::exchange_current(nullptr);
  return choice;
}

std::int64_t now() noexcept {
  Simulation* const simulation = Simulation::current();
  return simulation != nullptr ? simulation->now() : 0;
}

std::uint64_t cycles() noexcept {
  Simulation* const simulation = Simulation::current();
  return simulation != nullptr ? simulation->cycles() : 0;
}

void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
              std::int64_t deadline) noexcept {
  if (Simulation* const simulation = Simulation::current()) {
    simulation->sleep_on(word, expected, deadline);
    return;
  }
  std::fprintf(stderr, "leat: an exploring build waits only within leat::explore\n");
  std::abort();
}

void wake(const void* word, bool all) noexcept {
  if (Simulation* const simulation = Simulation::current()) simulation->wake(word, all);
}

void fail(const char* what) noexcept { Simulation::current()->fail(what); }

void* allocate(std::size_t size) { return arena.allocate(size); }
void deallocate(void* memory, std::size_t size) noexcept { arena.deallocate(memory, size); }

}  // namespace leat::hooks
