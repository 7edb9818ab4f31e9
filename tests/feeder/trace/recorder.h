// A profiler for the tests of ranges: a shared library that NVTX loads if NVTX_INJECTION64_PATH
// names it. The tests ask it what it was told.
#pragma once

#include <array>
#include <cstddef>

namespace leat::feeder {

/// A range that was begun.
struct RecordedRange {
  std::array<char, 64> name{};
  std::size_t begin = 0;  // its place among all begins and ends, from 1
  std::size_t end = 0;    // likewise; 0: it is open
};

/// What the library exports as leat_recorded: writes the first `most` ranges to `to`, in the order
/// in which they began. Returns how many there are; more than can be, if a range was ended that was
/// not open. Thread-safe.
using RecordedRanges = std::size_t(RecordedRange* to, std::size_t most);

}  // namespace leat::feeder
