// Counts what a program allocates: it replaces the global operator new, so it is included in one
// file of a program of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "tests/support/uncounted.h"

namespace leat::support {

inline std::atomic<std::size_t> g_allocations = 0;
inline std::atomic<std::size_t> g_frees = 0;

inline void* allocate_and_count(std::size_t size, std::size_t alignment) {
  const Allocating now = allocating();
  if (now.counted) g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (now.exhausted) throw std::bad_alloc();
  // aligned_alloc asks for a multiple.
  void* const memory =
      std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

inline void free_and_count(void* memory) noexcept {
  if (memory != nullptr) g_frees.fetch_add(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace leat::support

// Not inlined: g++ would see free() beside new, and take it for a mistake.
#define LEAT_REPLACES __attribute__((noinline))
LEAT_REPLACES void* operator new(std::size_t size) {
  return leat::support::allocate_and_count(size, alignof(std::max_align_t));
}
LEAT_REPLACES void* operator new(std::size_t size, std::align_val_t alignment) {
  return leat::support::allocate_and_count(size, static_cast<std::size_t>(alignment));
}
LEAT_REPLACES void* operator new(std::size_t size, const std::nothrow_t& /*unused*/) noexcept {
  return leat::support::allocate_and_count(size, alignof(std::max_align_t));
}
LEAT_REPLACES void* operator new(std::size_t size, std::align_val_t alignment,
                                 const std::nothrow_t& /*unused*/) noexcept {
  return leat::support::allocate_and_count(size, static_cast<std::size_t>(alignment));
}
LEAT_REPLACES void operator delete(void* memory) noexcept { leat::support::free_and_count(memory); }
LEAT_REPLACES void operator delete(void* memory, std::size_t /*size*/) noexcept {
  leat::support::free_and_count(memory);
}
LEAT_REPLACES void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  leat::support::free_and_count(memory);
}
LEAT_REPLACES void operator delete(void* memory, std::size_t /*size*/,
                                   std::align_val_t /*alignment*/) noexcept {
  leat::support::free_and_count(memory);
}

namespace leat::support {

/// Once to warm up, then ten times: what the one of them allocates that allocates least. For
/// meanwhile a worker's thread may start, once, late; what an operation needs, it needs each time.
template <class F>
std::size_t allocations_of(F&& f) {
  f();
  std::size_t least = static_cast<std::size_t>(-1);
  for (int i = 0; i < 10; ++i) {
    const std::size_t before = g_allocations;
    f();
    least = std::min(least, g_allocations - before);
  }
  return least;
}

}  // namespace leat::support
