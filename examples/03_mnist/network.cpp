#include "examples/03_mnist/network.h"

#include <cstring>

#include "examples/03_mnist/init.h"
#include "examples/03_mnist/launch.h"

namespace mnist {
namespace {

constexpr std::size_t kParameterBytes = kParameters * sizeof(float);

}  // namespace

Network::Network(const leat::gpu::StreamRef& stream, std::size_t batch_size, std::uint64_t seed)
    : stream_(stream),
      parameters_(stream.device(), kParameterBytes),
      gradient_(stream.device(), kParameterBytes),
      velocity_(stream.device(), kParameterBytes),
      input_(stream.device(), batch_size * kPixels * sizeof(float)),
      hidden_(stream.device(), batch_size * kHidden * sizeof(float)),
      logits_(stream.device(), batch_size * kClasses * sizeof(float)),
      dlogits_(stream.device(), batch_size * kClasses * sizeof(float)),
      dhidden_(stream.device(), batch_size * kHidden * sizeof(float)),
      metrics_(stream.device(), sizeof(Metrics)),
      no_metrics_(stream.device(), sizeof(Metrics)),
      staging_(stream.device(), kParameterBytes) {
  initialise(reinterpret_cast<float*>(staging_.data()), seed);
  copy_async(stream_, parameters_.span(), staging_.span());
  stream_.sync();
  std::memset(staging_.data(), 0, staging_.size());
  copy_async(stream_, velocity_.span(), staging_.span());
  copy_async(stream_, metrics_.span(), staging_.subspan(0, sizeof(Metrics)));
  copy_async(stream_, no_metrics_.span(), staging_.subspan(0, sizeof(Metrics)));
  stream_.sync();
}

void Network::forward1(const std::uint8_t* images, std::size_t samples) {
  const float* const p = floats(parameters_);
  float* const x = floats(input_);
  launch(stream_, Normalise{images, x, samples * kPixels});
  launch(stream_, LinearForward{x, p + kWeights1, p + kBias1, floats(hidden_), samples, kPixels,
                                kHidden, true});
}

void Network::forward2(const std::uint8_t* labels, std::size_t samples, float* dlogits) {
  const float* const p = floats(parameters_);
  float* const logits = floats(logits_);
  auto* const metrics = reinterpret_cast<Metrics*>(metrics_.data());
  launch(stream_, LinearForward{floats(hidden_), p + kWeights2, p + kBias2, logits, samples,
                                kHidden, kClasses, false});
  launch(stream_, SoftmaxCrossEntropy{logits, labels, dlogits, metrics, samples, kClasses});
}

void Network::forward2(const std::uint8_t* labels, std::size_t samples) {
  forward2(labels, samples, floats(dlogits_));
}

void Network::backward2(std::size_t samples) {
  const float* const p = floats(parameters_);
  float* const g = floats(gradient_);
  launch(stream_, LinearBackward{floats(hidden_), p + kWeights2, floats(dlogits_), g + kWeights2,
                                 g + kBias2, floats(dhidden_), samples, kHidden, kClasses, true});
}

void Network::backward1(std::size_t samples) {
  float* const g = floats(gradient_);
  launch(stream_, LinearBackward{floats(input_), nullptr, floats(dhidden_), g + kWeights1,
                                 g + kBias1, nullptr, samples, kPixels, kHidden, false});
}

void Network::train_step(const std::uint8_t* images, const std::uint8_t* labels,
                         std::size_t samples, const StepOptions& options) {
  compute_gradient(images, labels, samples);
  update(options);
}

void Network::compute_gradient(const std::uint8_t* images, const std::uint8_t* labels,
                               std::size_t samples) {
  forward1(images, samples);
  forward2(labels, samples);
  backward2(samples);
  backward1(samples);
}

void Network::update(const StepOptions& options) { update(0, kParameters, options); }

void Network::update(std::size_t first, std::size_t count, const StepOptions& options) {
  launch(stream_,
         SgdMomentum{floats(parameters_) + first, floats(gradient_) + first,
                     floats(velocity_) + first, count, options.learning_rate, options.momentum});
}

void Network::evaluate(const std::uint8_t* images, const std::uint8_t* labels,
                       std::size_t samples) {
  forward1(images, samples);
  forward2(labels, samples, nullptr);
}

Metrics Network::metrics() {
  const leat::gpu::PinnedSpan out = staging_.subspan(0, sizeof(Metrics));
  take_metrics(out);
  stream_.sync();
  Metrics metrics{};
  std::memcpy(&metrics, out.data(), sizeof metrics);
  return metrics;
}

void Network::take_metrics(leat::gpu::PinnedSpan to) {
  copy_async(stream_, to, metrics_.span());
  copy_async(stream_, metrics_.span(), no_metrics_.span());
}

}  // namespace mnist
