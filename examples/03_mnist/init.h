// Initial parameters of the MNIST perceptron: the same bits from the same seed on every machine,
// which the distributions of <random> do not promise.
//
// Errors and thread safety: none needed; the functions touch nothing but their arguments.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "examples/03_mnist/kernels.h"

namespace mnist {

/// Sebastiano Vigna's splitmix64: 64 bits of state, any seed will do.
class SplitMix64 {
 public:
  explicit constexpr SplitMix64(std::uint64_t seed) : state_(seed) {}

  /// The next 64 bits.
  constexpr std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  /// Uniform in [-1, 1), a multiple of 2^-23: exact in a float, so nothing is rounded.
  constexpr float next_uniform() {
    return static_cast<float>(static_cast<std::int32_t>(next() >> 40) - (1 << 23)) * 0x1p-23F;
  }

 private:
  std::uint64_t state_;
};

/// Fills `weights` [inputs,outputs] with He's uniform distribution, ±sqrt(6 / inputs), which keeps
/// the variance of a ReLU layer's activations.
inline void he_uniform(float* weights, std::size_t inputs, std::size_t outputs,
                       SplitMix64& random) {
  const float bound = std::sqrt(6.0F / static_cast<float>(inputs));
  for (std::size_t i = 0; i < inputs * outputs; ++i) weights[i] = bound * random.next_uniform();
}

/// Fills host memory `parameters` [kParameters]: He-uniform weights, zero biases.
inline void initialise(float* parameters, std::uint64_t seed) {
  SplitMix64 random(seed);
  he_uniform(parameters + kWeights1, kPixels, kHidden, random);
  he_uniform(parameters + kWeights2, kHidden, kClasses, random);
  for (std::size_t i = 0; i < kHidden; ++i) parameters[kBias1 + i] = 0.0F;
  for (std::size_t i = 0; i < kClasses; ++i) parameters[kBias2 + i] = 0.0F;
}

}  // namespace mnist
