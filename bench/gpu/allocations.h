// What the program has allocated so far, to be told apart from what it allocated before.
#pragma once

#include <cstdint>

#include "bench/gpu/cuda/counted_calls.h"

namespace bench {

/// Pieces of memory from the global operator new, which this replaces in the whole program.
[[nodiscard]] std::uint64_t heap_allocations() noexcept;

/// A look at all counters; the difference of two of them is what happened in between.
struct Allocations {
  std::uint64_t heap = heap_allocations();
  cuda::Calls cuda = cuda::counted_calls();
};

}  // namespace bench
