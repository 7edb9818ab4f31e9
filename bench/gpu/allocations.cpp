#include "bench/gpu/allocations.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> g_allocations = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  // aligned_alloc asks for a multiple, and may give null for none.
  const std::size_t rounded = (std::max(size, std::size_t{1}) + alignment - 1) / alignment;
  void* const memory = std::aligned_alloc(alignment, rounded * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Not inlined: g++ would see free() beside new, and take it for a mistake.
#define LEAT_REPLACES __attribute__((noinline))
LEAT_REPLACES void* operator new(std::size_t size) {
  return allocate(size, alignof(std::max_align_t));
}
LEAT_REPLACES void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
LEAT_REPLACES void operator delete(void* memory) noexcept { std::free(memory); }
LEAT_REPLACES void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
LEAT_REPLACES void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
LEAT_REPLACES void operator delete(void* memory, std::size_t /*size*/,
                                   std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace bench {

std::uint64_t heap_allocations() noexcept { return g_allocations.load(std::memory_order_relaxed); }

}  // namespace bench
