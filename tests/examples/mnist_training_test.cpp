// The MNIST trainer's network on the host: how it begins, and that its kernels together train it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "examples/03_mnist/init.h"
#include "examples/03_mnist/kernels.h"
#include "tests/examples/mnist_arrays.h"

namespace mnist {
namespace mnist_training_test {

// Trains the whole network on one batch of noise; returns its parameters.
Floats memorise(std::size_t batch, int steps, Metrics& last) {
  SplitMix64 random(7);
  std::vector<std::uint8_t> pixels(batch * kPixels);
  for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(random.next());
  const Labels labels = random_labels(batch, kClasses, 8);
  Floats p(kParameters);
  Floats g(kParameters);
  Floats velocity(kParameters);
  Floats x(batch * kPixels);
  Floats hidden(batch * kHidden);
  Floats dhidden(batch * kHidden);
  Floats logits(batch * kClasses);
  initialise(p.data(), 1);
  host::normalise({pixels.data(), x.data(), batch * kPixels});
  for (int step = 0; step < steps; ++step) {
    last = {};
    host::linear_forward({x.data(), p.data() + kWeights1, p.data() + kBias1, hidden.data(), batch,
                          kPixels, kHidden, true});
    host::linear_forward({hidden.data(), p.data() + kWeights2, p.data() + kBias2, logits.data(),
                          batch, kHidden, kClasses, false});
    host::softmax_cross_entropy(
        {logits.data(), labels.data(), logits.data(), &last, batch, kClasses});
    host::linear_backward({hidden.data(), p.data() + kWeights2, logits.data(), g.data() + kWeights2,
                           g.data() + kBias2, dhidden.data(), batch, kHidden, kClasses, true});
    host::linear_backward({x.data(), nullptr, dhidden.data(), g.data() + kWeights1,
                           g.data() + kBias1, nullptr, batch, kPixels, kHidden, false});
    host::sgd_momentum({p.data(), g.data(), velocity.data(), kParameters, 0.01F, 0.9F});
  }
  return p;
}

TEST(MnistKernels, RepeatedStepsMemoriseABatch) {
  Metrics metrics{};
  memorise(30, 30, metrics);
  EXPECT_EQ(metrics.correct, 30U);
  EXPECT_LT(metrics.loss / 30.0, 0.1);
}

TEST(MnistKernels, TrainingTwiceGivesTheSameBits) {
  Metrics first{};
  Metrics second{};
  EXPECT_EQ(memorise(30, 5, first), memorise(30, 5, second));
  EXPECT_EQ(first.loss, second.loss);
}

TEST(MnistInit, SplitMix64GivesThePublishedNumbers) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317U);
  EXPECT_EQ(random.next(), 3203168211198807973U);
  EXPECT_EQ(random.next(), 9817491932198370423U);
}

TEST(MnistInit, WeightsAreHeUniformAndBiasesZero) {
  Output parameters(kParameters);
  initialise(parameters.data(), 1);
  const Floats p = parameters.take();
  const auto at = [&](std::size_t offset) {
    return p.begin() + static_cast<Floats::difference_type>(offset);
  };
  const auto expect_uniform = [&](std::size_t begin, std::size_t end, double bound) {
    double squares = 0.0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto value = static_cast<double>(p[i]);
      ASSERT_LE(std::abs(value), bound * 1.000001);
      squares += value * value;
    }
    // The variance of a uniform distribution is a third of its bound's square.
    EXPECT_NEAR(squares / static_cast<double>(end - begin), bound * bound / 3.0,
                bound * bound * 0.03);
  };
  expect_uniform(kWeights1, kBias1, std::sqrt(6.0 / 784.0));
  expect_uniform(kWeights2, kBias2, std::sqrt(6.0 / 128.0));
  const auto is_zero = [](float value) { return value == 0.0F; };
  EXPECT_TRUE(std::all_of(at(kBias1), at(kWeights2), is_zero));
  EXPECT_TRUE(std::all_of(at(kBias2), p.end(), is_zero));
}

}  // namespace mnist_training_test
}  // namespace mnist
