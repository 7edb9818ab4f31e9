// The host kernels of the MNIST trainer, against references in double precision that are written
// from the definitions. Every output starts as NaN and is followed by a guard.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "examples/03_mnist/kernels.h"
#include "tests/examples/mnist_arrays.h"

namespace mnist {
namespace mnist_kernels_test {

using Doubles = std::vector<double>;

struct Shape {
  std::size_t batch;
  std::size_t inputs;
  std::size_t outputs;
};

std::string describe(const Shape& s) {
  return "batch " + std::to_string(s.batch) + ", inputs " + std::to_string(s.inputs) +
         ", outputs " + std::to_string(s.outputs);
}

// One element, partial and whole tiles, more than one panel, and the trainer's own layers.
constexpr std::array kShapes = {Shape{1, 1, 1},    Shape{1, 5, 3},      Shape{3, 5, 3},
                                Shape{128, 5, 3},  Shape{4, 8, 8},      Shape{5, 300, 9},
                                Shape{300, 7, 17}, Shape{96, 784, 128}, Shape{128, 128, 10},
                                Shape{1, 784, 128}};

// `scale` is the size of the sums' terms, which their rounding errors are proportional to.
void expect_near(const Floats& actual, const Doubles& expected, double scale = 1.0) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto value = static_cast<double>(actual[i]);
    ASSERT_NEAR(value, expected[i], 2e-6 * (scale + std::abs(expected[i]))) << "element " << i;
  }
}

Doubles reference_forward(const Doubles& x, const Doubles& weights, const Doubles& bias,
                          const Shape& s, bool relu) {
  Doubles y(s.batch * s.outputs);
  for (std::size_t b = 0; b < s.batch; ++b) {
    for (std::size_t o = 0; o < s.outputs; ++o) {
      double sum = bias[o];
      for (std::size_t i = 0; i < s.inputs; ++i) {
        sum += x[b * s.inputs + i] * weights[i * s.outputs + o];
      }
      y[b * s.outputs + o] = relu ? std::max(sum, 0.0) : sum;
    }
  }
  return y;
}

double reference_loss(const Doubles& logits, const Labels& labels, std::size_t classes) {
  double loss = 0.0;
  for (std::size_t b = 0; b < labels.size(); ++b) {
    double sum = 0.0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(logits[b * classes + c]);
    loss += std::log(sum) - logits[b * classes + labels[b]];
  }
  return loss;
}

Doubles widen(const Floats& values) { return {values.begin(), values.end()}; }

TEST(MnistKernels, NormaliseMapsEveryPixelValue) {
  std::vector<std::uint8_t> pixels(256);
  Doubles expected(256);
  for (std::size_t i = 0; i < 256; ++i) {
    pixels[i] = static_cast<std::uint8_t>(i);
    expected[i] = (static_cast<double>(i) / 255.0 - 0.1307) / 0.3081;
  }
  Output y(256);
  host::normalise({pixels.data(), y.data(), 256});
  expect_near(y.take(), expected);
}

TEST(MnistKernels, LinearForwardEqualsTheReference) {
  for (const Shape& s : kShapes) {
    for (const bool relu : {false, true}) {
      SCOPED_TRACE(describe(s) + (relu ? ", ReLU" : ""));
      const Floats x = random_floats(s.batch * s.inputs, 1);
      const Floats weights = random_floats(s.inputs * s.outputs, 2);
      const Floats bias = random_floats(s.outputs, 3);
      Output y(s.batch * s.outputs);
      host::linear_forward(
          {x.data(), weights.data(), bias.data(), y.data(), s.batch, s.inputs, s.outputs, relu});
      expect_near(y.take(), reference_forward(widen(x), widen(weights), widen(bias), s, relu),
                  std::sqrt(static_cast<double>(s.inputs)));
    }
  }
}

TEST(MnistKernels, ASampleDoesNotDependOnTheOthersInItsBatch) {
  constexpr Shape kBatch = {7, 300, 11};
  const Floats x = random_floats(kBatch.batch * kBatch.inputs, 1);
  const Floats weights = random_floats(kBatch.inputs * kBatch.outputs, 2);
  const Floats bias = random_floats(kBatch.outputs, 3);
  Floats together(kBatch.batch * kBatch.outputs);
  Floats alone(kBatch.batch * kBatch.outputs);
  host::linear_forward({x.data(), weights.data(), bias.data(), together.data(), kBatch.batch,
                        kBatch.inputs, kBatch.outputs, false});
  for (std::size_t b = 0; b < kBatch.batch; ++b) {
    host::linear_forward({x.data() + b * kBatch.inputs, weights.data(), bias.data(),
                          alone.data() + b * kBatch.outputs, 1, kBatch.inputs, kBatch.outputs,
                          false});
  }
  EXPECT_EQ(together, alone);
}

TEST(MnistKernels, LinearBackwardStoresTheReferencesGradients) {
  for (const Shape& s : kShapes) {
    for (const bool relu : {false, true}) {
      SCOPED_TRACE(describe(s) + (relu ? ", ReLU" : ""));
      const Floats x = random_floats(s.batch * s.inputs, 1);
      const Floats weights = random_floats(s.inputs * s.outputs, 2);
      const Floats dy = random_floats(s.batch * s.outputs, 3);
      Doubles expected_dweights(s.inputs * s.outputs);
      Doubles expected_dbias(s.outputs);
      Doubles expected_dx(s.batch * s.inputs);
      for (std::size_t b = 0; b < s.batch; ++b) {
        for (std::size_t o = 0; o < s.outputs; ++o) {
          const auto d = static_cast<double>(dy[b * s.outputs + o]);
          expected_dbias[o] += d;
          for (std::size_t i = 0; i < s.inputs; ++i) {
            const auto input = static_cast<double>(x[b * s.inputs + i]);
            expected_dweights[i * s.outputs + o] += d * input;
            if (relu && input <= 0.0) continue;
            expected_dx[b * s.inputs + i] += d * static_cast<double>(weights[i * s.outputs + o]);
          }
        }
      }
      Output dweights(s.inputs * s.outputs);
      Output dbias(s.outputs);
      Output dx(s.batch * s.inputs);
      host::linear_backward({x.data(), weights.data(), dy.data(), dweights.data(), dbias.data(),
                             dx.data(), s.batch, s.inputs, s.outputs, relu});
      const double scale = std::sqrt(static_cast<double>(s.batch));
      expect_near(dweights.take(), expected_dweights, scale);
      expect_near(dbias.take(), expected_dbias, scale);
      expect_near(dx.take(), expected_dx, std::sqrt(static_cast<double>(s.outputs)));
    }
  }
}

TEST(MnistKernels, TheFirstLayerNeedsNoWeightsToGoBackwardAndAddsItsGradientsIfAsked) {
  const Floats x = {1.0F, 2.0F};
  const Floats dy = {3.0F};
  for (const bool adds : {false, true}) {
    Floats dweights = {10.0F, 20.0F};
    Floats dbias = {30.0F};
    host::linear_backward({x.data(), nullptr, dy.data(), dweights.data(), dbias.data(), nullptr, 1,
                           2, 1, false, adds});
    EXPECT_EQ(dweights, (adds ? Floats{13.0F, 26.0F} : Floats{3.0F, 6.0F}));
    EXPECT_EQ(dbias, (Floats{adds ? 33.0F : 3.0F}));
  }
}

TEST(MnistKernels, TheInputsGradientAndTheParametersComeApartWithTheSameBits) {
  constexpr Shape kShape = {5, 300, 9};
  const Floats x = random_floats(kShape.batch * kShape.inputs, 1);
  const Floats weights = random_floats(kShape.inputs * kShape.outputs, 2);
  const Floats dy = random_floats(kShape.batch * kShape.outputs, 3);
  std::array<Floats, 2> dweights;
  std::array<Floats, 2> dbias;
  std::array<Floats, 2> dx;
  for (const std::size_t apart : {0U, 1U}) {
    dweights[apart].resize(weights.size());
    dbias[apart].resize(kShape.outputs);
    dx[apart].resize(x.size());
    LinearBackward args = {x.data(),
                           weights.data(),
                           dy.data(),
                           dweights[apart].data(),
                           dbias[apart].data(),
                           dx[apart].data(),
                           kShape.batch,
                           kShape.inputs,
                           kShape.outputs,
                           true};
    if (apart == 1) {
      args.dx = nullptr;
      host::linear_backward(args);
      args.dx = dx[apart].data();
      args.dweights = args.dbias = nullptr;
    }
    host::linear_backward(args);
  }
  EXPECT_EQ(dweights[1], dweights[0]);
  EXPECT_EQ(dbias[1], dbias[0]);
  EXPECT_EQ(dx[1], dx[0]);
}

TEST(MnistKernels, TheGradientOfTheLossCanBeScaled) {
  const Floats logits = {0.0F, 0.0F, 0.0F, 0.0F};
  const Labels labels = {0, 1};
  Floats dlogits(4);
  Metrics metrics{};
  host::softmax_cross_entropy(
      {logits.data(), labels.data(), dlogits.data(), &metrics, 2, 2, 0.25F});
  EXPECT_EQ(dlogits, (Floats{-0.0625F, 0.0625F, 0.0625F, -0.0625F}));
  EXPECT_NEAR(metrics.loss, 2 * std::log(2.0), 1e-6);
}

TEST(MnistKernels, GradientsEqualFiniteDifferences) {
  constexpr Shape kFirst = {3, 5, 4};
  constexpr Shape kSecond = {3, 4, 3};
  const Floats x = random_floats(15, 1);
  const Floats weights1 = random_floats(20, 2);
  const Floats bias1 = random_floats(4, 3);
  const Floats weights2 = random_floats(12, 4);
  const Floats bias2 = random_floats(3, 5);
  const Labels labels = {2, 0, 1};

  Floats hidden(12);
  Floats logits(9);
  Floats dhidden(12);
  Output dweights1(20);
  Output dbias1(4);
  Output dweights2(12);
  Output dbias2(3);
  Metrics metrics{};
  host::linear_forward({x.data(), weights1.data(), bias1.data(), hidden.data(), 3, 5, 4, true});
  host::linear_forward(
      {hidden.data(), weights2.data(), bias2.data(), logits.data(), 3, 4, 3, false});
  ASSERT_NE(std::count(hidden.begin(), hidden.end(), 0.0F), 0) << "no unit of the ReLU is off";
  host::softmax_cross_entropy({logits.data(), labels.data(), logits.data(), &metrics, 3, 3});
  host::linear_backward({hidden.data(), weights2.data(), logits.data(), dweights2.data(),
                         dbias2.data(), dhidden.data(), 3, 4, 3, true});
  host::linear_backward({x.data(), nullptr, dhidden.data(), dweights1.data(), dbias1.data(),
                         nullptr, 3, 5, 4, false});

  std::array parameters = {widen(weights1), widen(bias1), widen(weights2), widen(bias2)};
  const auto mean_loss = [&] {
    const Doubles h = reference_forward(widen(x), parameters[0], parameters[1], kFirst, true);
    const Doubles z = reference_forward(h, parameters[2], parameters[3], kSecond, false);
    return reference_loss(z, labels, 3) / 3.0;
  };
  const std::array gradients = {dweights1.take(), dbias1.take(), dweights2.take(), dbias2.take()};
  constexpr double kStep = 1e-5;
  for (std::size_t tensor = 0; tensor < parameters.size(); ++tensor) {
    for (std::size_t i = 0; i < parameters[tensor].size(); ++i) {
      double& parameter = parameters[tensor][i];
      const double at = parameter;
      parameter = at + kStep;
      const double above = mean_loss();
      parameter = at - kStep;
      const double below = mean_loss();
      parameter = at;
      EXPECT_NEAR(static_cast<double>(gradients[tensor][i]), (above - below) / (2.0 * kStep), 1e-6)
          << "tensor " << tensor << ", element " << i;
    }
  }
}

TEST(MnistKernels, SoftmaxCrossEntropyEqualsTheReference) {
  for (const std::size_t batch : {1U, 3U, 128U}) {
    for (const std::size_t classes : {1U, 3U, 10U}) {
      SCOPED_TRACE(describe({batch, classes, classes}));
      const Floats logits = random_floats(batch * classes, 1);
      const Labels labels = random_labels(batch, classes, 2);
      Doubles expected(batch * classes);
      std::uint64_t correct = 0;
      for (std::size_t b = 0; b < batch; ++b) {
        const float* const z = logits.data() + b * classes;
        double sum = 0.0;
        for (std::size_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(z[c]));
        for (std::size_t c = 0; c < classes; ++c) {
          const double probability = std::exp(static_cast<double>(z[c])) / sum;
          expected[b * classes + c] =
              (probability - (c == labels[b] ? 1.0 : 0.0)) / static_cast<double>(batch);
        }
        if (std::max_element(z, z + classes) == z + labels[b]) ++correct;
      }
      Output dlogits(batch * classes);
      Metrics metrics{};
      host::softmax_cross_entropy(
          {logits.data(), labels.data(), dlogits.data(), &metrics, batch, classes});
      expect_near(dlogits.take(), expected);
      EXPECT_NEAR(metrics.loss, reference_loss(widen(logits), labels, classes),
                  1e-6 * static_cast<double>(batch));
      EXPECT_EQ(metrics.correct, correct);
      EXPECT_EQ(metrics.samples, batch);
    }
  }
}

TEST(MnistKernels, SoftmaxIsStableForHugeLogits) {
  const Floats logits = {1000.0F, -1000.0F, 0.0F, 1000.0F, -1000.0F, 0.0F};
  const Labels labels = {0, 1};
  Output dlogits(6);
  Metrics metrics{};
  host::softmax_cross_entropy({logits.data(), labels.data(), dlogits.data(), &metrics, 2, 3});
  EXPECT_EQ(dlogits.take(), (Floats{0.0F, 0.0F, 0.0F, 0.5F, -0.5F, 0.0F}));
  EXPECT_EQ(metrics.loss, 2000.0);
  EXPECT_EQ(metrics.correct, 1U);
}

TEST(MnistKernels, OfEqualLogitsTheFirstIsTheGuess) {
  const Floats logits = {0.0F, 1.0F, 1.0F};
  Metrics metrics{};
  for (const std::uint8_t label : Labels{1, 2}) {
    host::softmax_cross_entropy({logits.data(), &label, nullptr, &metrics, 1, 3});
    EXPECT_EQ(metrics.correct, 1U);
  }
}

TEST(MnistKernels, MetricsAccumulateOverBatchesWithoutAGradient) {
  Floats logits = random_floats(9 * kClasses, 1);
  const Labels labels = random_labels(9, kClasses, 2);
  // Right in both parts.
  for (const std::size_t b : {0U, 3U, 7U}) logits[b * kClasses + labels[b]] = 2.0F;
  Metrics whole{};
  Metrics parts{};
  host::softmax_cross_entropy({logits.data(), labels.data(), nullptr, &whole, 9, kClasses});
  host::softmax_cross_entropy({logits.data(), labels.data(), nullptr, &parts, 4, kClasses});
  host::softmax_cross_entropy(
      {logits.data() + 4 * kClasses, labels.data() + 4, nullptr, &parts, 5, kClasses});
  EXPECT_DOUBLE_EQ(parts.loss, whole.loss);
  EXPECT_EQ(parts.correct, whole.correct);
  EXPECT_EQ(parts.samples, 9U);
}

TEST(MnistKernels, TheGradientMayOverwriteTheLogits) {
  const Floats logits = random_floats(5 * kClasses, 1);
  const Labels labels = random_labels(5, kClasses, 2);
  Floats apart(logits.size());
  Floats in_place = logits;
  Metrics metrics{};
  host::softmax_cross_entropy({logits.data(), labels.data(), apart.data(), &metrics, 5, kClasses});
  host::softmax_cross_entropy(
      {in_place.data(), labels.data(), in_place.data(), &metrics, 5, kClasses});
  EXPECT_EQ(in_place, apart);
}

TEST(MnistKernels, SgdMomentumFollowsItsRecurrence) {
  Floats parameters = {1.0F, -2.0F, 0.5F};
  Floats velocity(3);
  const Floats gradient = {0.5F, 1.0F, -2.0F};
  const SgdMomentum step = {parameters.data(), gradient.data(), velocity.data(), 3, 0.25F, 0.5F};
  host::sgd_momentum(step);
  EXPECT_EQ(velocity, (Floats{0.5F, 1.0F, -2.0F}));
  EXPECT_EQ(parameters, (Floats{0.875F, -2.25F, 1.0F}));
  host::sgd_momentum(step);
  EXPECT_EQ(velocity, (Floats{0.75F, 1.5F, -3.0F}));
  EXPECT_EQ(parameters, (Floats{0.6875F, -2.625F, 1.75F}));
}

}  // namespace mnist_kernels_test
}  // namespace mnist
