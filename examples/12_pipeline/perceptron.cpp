#include "examples/12_pipeline/perceptron.h"

#include <cstring>
#include <string>

#include "examples/03_mnist/init.h"
#include "examples/03_mnist/launch.h"

namespace pipelined {
namespace {

namespace gpu = leat::gpu;
using leat::pipeline::Microbatch;
using leat::pipeline::StageMemory;
using mnist::LinearBackward;
using mnist::LinearForward;

constexpr std::size_t kFloat = sizeof(float);

// The first layer of a stage; of the stage behind the last one, kLayers.
constexpr std::size_t first_layer_of(std::size_t number, std::size_t stages) {
  return number * kLayers / stages;
}

std::size_t parameters_between(std::size_t first, std::size_t end) {
  std::size_t count = 0;
  for (std::size_t i = first; i < end; ++i) count += layer(i).parameters();
  return count;
}

float* floats(const gpu::DeviceSpan& memory) { return reinterpret_cast<float*>(memory.data()); }

}  // namespace

PerceptronStage::PerceptronStage(const gpu::Device& device, std::size_t number, std::size_t stages,
                                 std::uint64_t seed)
    : number_(number),
      first_(first_layer_of(number, stages)),
      end_(first_layer_of(number + 1, stages)),
      parameters_(device, parameters_between(first_, end_) * kFloat),
      gradient_(device, parameters_.size()),
      zeros_(device, parameters_.size()),
      metrics_(device, sizeof(mnist::Metrics)),
      staging_(device, parameters_.size()) {
  std::memset(staging_.data(), 0, staging_.size());
  const gpu::Stream stream(device);
  copy_async(stream, zeros_.span(), staging_.span());
  copy_async(stream, metrics_.span(), staging_.subspan(0, metrics_.size()));
  zero_gradient(stream);
  stream.sync();
  auto* const values = reinterpret_cast<float*>(staging_.data());
  std::size_t at = 0;
  for (std::size_t i = first_; i < end_; ++i) {
    const Layer one = layer(i);
    // An input that another stage sends has memory of its own; so has its gradient.
    const bool is_within = i > first_;
    parts_.push_back({.layer = one, .parameters = at, .x = kept_, .dx = left_});
    if (is_within || i == 0) kept_ += one.inputs;
    if (is_within) left_ += one.inputs;
    mnist::SplitMix64 random(seed + i);
    mnist::he_uniform(values + at, one.inputs, one.outputs, random);
    at += one.parameters();  // biases are zero
  }
  if (is_last()) kept_ += mnist::kClasses;
  copy_async(stream, parameters_.span(), staging_.span());
  stream.sync();
}

StageMemory PerceptronStage::memory() const {
  return {.input = is_first() ? 0 : parts_.front().layer.inputs * kFloat,
          .output = is_last() ? 0 : parts_.back().layer.outputs * kFloat,
          .kept = kept_ * kFloat,
          .left = left_ * kFloat};
}

float* PerceptronStage::input(std::size_t part, const Microbatch& m) const {
  if (part == 0 && !is_first()) return floats(m.input);
  return floats(m.kept) + parts_[part].x * m.samples;
}

float* PerceptronStage::output(std::size_t part, const Microbatch& m) const {
  if (part + 1 < parts_.size()) return input(part + 1, m);
  return is_last() ? floats(m.kept) + (kept_ - mnist::kClasses) * m.samples : floats(m.output);
}

float* PerceptronStage::input_gradient(std::size_t part, const Microbatch& m) const {
  if (part == 0) return is_first() ? nullptr : floats(m.input_gradient);
  return floats(m.left) + parts_[part].dx * m.samples;
}

float* PerceptronStage::output_gradient(std::size_t part, const Microbatch& m) const {
  if (part + 1 < parts_.size()) return input_gradient(part + 1, m);
  return is_last() ? output(part, m) : floats(m.output_gradient);  // in the logits' place
}

// [stage]
void PerceptronStage::forward(const Microbatch& m) {
  if (is_first()) {
    const std::size_t pixels = m.samples * mnist::kPixels;
    launch(m.stream, mnist::Normalise{images_ + m.first * mnist::kPixels, input(0, m), pixels});
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto [one, at, x, dx] = parts_[i];
    const float* const weights = floats(parameters_.span()) + at;
    launch(m.stream,
           LinearForward{input(i, m), weights, weights + one.inputs * one.outputs, output(i, m),
                         m.samples, one.inputs, one.outputs, !is_last() || i + 1 < parts_.size()});
  }
  if (!is_last()) return;
  float* const logits = output(parts_.size() - 1, m);
  launch(m.stream,
         mnist::SoftmaxCrossEntropy{logits, labels_ + m.first, m.evaluates ? nullptr : logits,
                                    reinterpret_cast<mnist::Metrics*>(metrics_.data()), m.samples,
                                    mnist::kClasses, static_cast<float>(m.weight)});  // n_b / N
}

void PerceptronStage::backward_input(const Microbatch& m) {
  for (std::size_t i = parts_.size(); i-- > 0;) {
    if (!relu_before(i)) continue;  // pixels need no gradient
    const auto [one, at, x, dx] = parts_[i];
    launch(m.stream, LinearBackward{input(i, m), floats(parameters_.span()) + at,
                                    output_gradient(i, m), nullptr, nullptr, input_gradient(i, m),
                                    m.samples, one.inputs, one.outputs, true});
  }
}

void PerceptronStage::backward_weight(const Microbatch& m) {
  for (std::size_t i = parts_.size(); i-- > 0;) {
    const auto [one, at, x, dx] = parts_[i];
    float* const weights = floats(gradient_.span()) + at;
    launch(m.stream, LinearBackward{input(i, m), nullptr, output_gradient(i, m), weights,
                                    weights + one.inputs * one.outputs, nullptr, m.samples,
                                    one.inputs, one.outputs, false, true});  // added
  }
}
// [/stage]

std::vector<leat::comm::Gradient> PerceptronStage::gradients() const {
  std::vector<leat::comm::Gradient> all;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Layer& one = parts_[i].layer;
    const std::size_t at = parts_[i].parameters * kFloat;
    const std::size_t weights = one.inputs * one.outputs * kFloat;
    const std::string name = std::to_string(first_ + i);
    all.push_back({.name = "weights" + name, .data = gradient_.subspan(at, weights)});
    all.push_back(
        {.name = "biases" + name, .data = gradient_.subspan(at + weights, one.outputs * kFloat)});
  }
  return all;
}

void PerceptronStage::zero_gradient(const gpu::StreamRef& stream) const {
  copy_async(stream, gradient_.span(), zeros_.span());
}

void PerceptronStage::update(const gpu::StreamRef& stream, float learning_rate) const {
  float* const gradient = floats(gradient_.span());
  launch(stream, mnist::SgdMomentum{floats(parameters_.span()), gradient, gradient,
                                    parameters_.size() / kFloat, learning_rate, 0.0F});
}

mnist::Metrics PerceptronStage::take_metrics(const gpu::StreamRef& stream) const {
  mnist::Metrics metrics{};
  const gpu::PinnedSpan out = staging_.subspan(0, sizeof metrics);
  copy_async(stream, out, metrics_.span());
  copy_async(stream, metrics_.span(), zeros_.subspan(0, sizeof metrics));
  stream.sync();
  std::memcpy(&metrics, out.data(), sizeof metrics);
  return metrics;
}

}  // namespace pipelined
