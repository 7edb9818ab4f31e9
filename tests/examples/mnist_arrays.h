// Arrays for the kernels of the MNIST trainer: random inputs, and guarded outputs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "examples/03_mnist/init.h"

namespace mnist {

using Floats = std::vector<float>;
using Labels = std::vector<std::uint8_t>;

inline Floats random_floats(std::size_t count, std::uint64_t seed) {
  SplitMix64 random(seed);
  Floats values(count);
  for (float& value : values) value = random.next_uniform();
  return values;
}

inline Labels random_labels(std::size_t count, std::size_t classes, std::uint64_t seed) {
  SplitMix64 random(seed);
  Labels labels(count);
  for (std::uint8_t& label : labels) label = static_cast<std::uint8_t>(random.next() % classes);
  return labels;
}

// An output array that tells what was not written, and what was written past its end.
class Output {
 public:
  explicit Output(std::size_t count)
      : values_(count + kGuards, std::numeric_limits<float>::quiet_NaN()) {
    std::fill(values_.end() - kGuards, values_.end(), kGuard);
  }

  float* data() { return values_.data(); }

  // The values, once the guard is seen to be whole.
  Floats take() {
    const auto end = values_.end() - kGuards;
    EXPECT_TRUE(std::all_of(end, values_.end(),
                            [](float guard) { return guard == 0.0F && std::signbit(guard); }));
    return {values_.begin(), end};
  }

 private:
  static constexpr int kGuards = 16;
  // Even adding zero changes it: -0 + 0 is 0.
  static constexpr float kGuard = -0.0F;
  Floats values_;
};

}  // namespace mnist
