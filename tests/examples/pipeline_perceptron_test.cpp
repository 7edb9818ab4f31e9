// The stages of the pipeline's perceptron, without an executor: cut anywhere they are one network,
// and their gradients are those of the whole batch's mean loss.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "examples/12_pipeline/perceptron.h"
#include "leat/csp/scheduler.h"
#include "leat/gpu/device.h"
#include "tests/examples/mnist_arrays.h"
#include "tests/examples/pipeline_one_device.h"

namespace pipelined {
namespace pipeline_perceptron_test {

constexpr std::uint64_t kSeed = 3;

struct Batch {
  explicit Batch(std::uint64_t count)
      : images(mnist::random_labels(count * mnist::kPixels, 256, 1)),
        labels(mnist::random_labels(count, mnist::kClasses, 2)) {}
  [[nodiscard]] Samples samples() const { return {images.data(), labels.data(), labels.size()}; }
  mnist::Labels images;
  mnist::Labels labels;
};

TEST(PipelinePerceptron, HasTheSameBitsWhereverItIsCut) {
  const Batch batch(21);
  leat::run([&] {
    const leat::gpu::Device device = leat::gpu::open("host");
    std::vector<std::vector<float>> gradients;
    std::vector<std::vector<float>> weights;
    for (const std::size_t stages : {1U, 2U, 3U, 4U, 8U}) {
      OneDevice network(device, stages, 3, kSeed);
      network.add_gradient(batch.samples(), 8, false, 21);
      gradients.push_back(network.gradient());
      network.update(0.1F);
      weights.push_back(network.parameters());
    }
    for (std::size_t i = 1; i < weights.size(); ++i) {
      EXPECT_TRUE(same_bits(gradients[i], gradients[0])) << i;
      EXPECT_TRUE(same_bits(weights[i], weights[0])) << i;
    }
    EXPECT_GT(norm(gradients[0]), 0.01);
    EXPECT_FALSE(same_bits(weights[0], OneDevice(device, 1, 1, kSeed).parameters()));
  });
}

TEST(PipelinePerceptron, TheSumOverMicrobatchesIsTheGradientOfTheWholeBatch) {
  const Batch batch(60);
  leat::run([&] {
    const leat::gpu::Device device = leat::gpu::open("host");
    OneDevice whole(device, 1, 60, kSeed);
    whole.add_gradient(batch.samples(), 1, false, 60);
    for (const std::int32_t microbatches : {7, 8, 60}) {
      OneDevice parts(device, 4, 60, kSeed);
      parts.add_gradient(batch.samples(), microbatches, true, 60);
      EXPECT_LE(distance(parts.gradient(), whole.gradient()), 1e-6 * norm(whole.gradient()));
    }
  });
}

// In single precision: the steps are along the gradient, where the loss changes most.
TEST(PipelinePerceptron, TheGradientIsTheSlopeOfTheMeanLoss) {
  const Batch batch(32);
  leat::run([&] {
    const leat::gpu::Device device = leat::gpu::open("host");
    OneDevice network(device, 8, 32, kSeed);
    network.add_gradient(batch.samples(), 1, false, 32);
    const std::vector<float> at = network.parameters();
    const std::vector<float> gradient = network.gradient();
    const double length = norm(gradient);
    (void)network.take_metrics();
    const auto loss_at = [&](double step) {  // along the gradient, of unit length
      std::vector<float> moved = at;
      for (std::size_t i = 0; i < at.size(); ++i) {
        moved[i] += static_cast<float>(step / length) * gradient[i];
      }
      network.set_parameters(moved);
      network.evaluate(batch.samples());
      return network.take_metrics().loss / 32;
    };
    constexpr double kStep = 1e-3;
    const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    EXPECT_NEAR(slope / length, 1.0, 0.01);
  });
}

TEST(PipelinePerceptron, EvaluationLeavesNoGradientAndCountsItsSamples) {
  const Batch batch(40);
  leat::run([&] {
    const leat::gpu::Device device = leat::gpu::open("host");
    OneDevice network(device, 4, 40, kSeed);
    network.add_gradient(batch.samples(), 1, false, 40);
    const std::vector<float> before = network.gradient();
    const mnist::Metrics trained = network.take_metrics();
    network.evaluate(batch.samples());
    const mnist::Metrics tested = network.take_metrics();
    EXPECT_TRUE(same_bits(network.gradient(), before));
    EXPECT_EQ(tested.samples, 40U);
    EXPECT_EQ(tested.loss, trained.loss);
    EXPECT_EQ(tested.correct, trained.correct);
    EXPECT_EQ(network.take_metrics().samples, 0U);
    network.zero_gradient();
    EXPECT_EQ(norm(network.gradient()), 0);
  });
}

TEST(PipelinePerceptron, ItsStagesShareOutAllParametersUnderNamesOfTheirOwn) {
  leat::run([] {
    const leat::gpu::Device device = leat::gpu::open("host");
    for (const std::size_t stages : {1U, 3U, 4U, 8U}) {
      std::set<std::string> names;
      std::size_t bytes = 0;
      std::size_t sent = 0;  // by the stage before
      std::size_t layers = 0;
      for (std::size_t s = 0; s < stages; ++s) {
        const PerceptronStage stage(device, s, stages, kSeed);
        EXPECT_EQ(stage.first_layer(), layers);
        layers = stage.end_layer();
        EXPECT_EQ(stage.memory().input, sent);
        sent = stage.memory().output;
        for (const leat::comm::Gradient& one : stage.gradients()) {
          EXPECT_TRUE(names.insert(one.name).second) << one.name;
          bytes += one.data.size();
        }
      }
      EXPECT_EQ(layers, kLayers);
      EXPECT_EQ(sent, 0U);
      EXPECT_EQ(bytes, 4U * (785 * 128 + 6 * 129 * 128 + 129 * 10));
    }
  });
}

}  // namespace pipeline_perceptron_test
}  // namespace pipelined
