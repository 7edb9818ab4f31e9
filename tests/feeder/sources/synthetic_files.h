// A directory with generated data, and what its samples must be.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "bench/data/synthetic.h"
#include "leat/feeder/dataset.h"
#include "tests/feeder/sources/idx_files.h"

namespace leat::feeder {

inline std::vector<std::byte> expected_bytes(std::uint64_t seed, std::uint64_t index,
                                             std::size_t count) {
  std::vector<std::byte> bytes(count);
  synthetic_bytes(seed, index, bytes);
  return bytes;
}

/// Whether the spans hold the same.
template <class T>
bool equal(std::span<const T> a, std::span<const T> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// Calls `check(index)` for all samples from each of several threads, which begin at different
/// ones.
template <class Check>
void from_several_threads(std::uint64_t size, const Check& check) {
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&check, size, t] {
      for (std::uint64_t i = 0; i < size; ++i) check((i + t * size / 4) % size);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace leat::feeder
