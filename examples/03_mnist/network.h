// The perceptron on a device: its parameters, its working memory, and the order of its kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "examples/03_mnist/kernels.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/stream.h"

namespace mnist {

/// Learning rate and momentum of one step.
struct StepOptions {
  float learning_rate = 0.04F;
  float momentum = 0.9F;
};

/// A network 784 -> 128 -> 10. Everything is enqueued on one stream, which must outlive it; nothing
/// but the constructor and metrics() waits for the device.
class Network {
 public:
  /// Parameters drawn from `seed`; room for batches of up to `batch_size` samples. Throws GpuError.
  Network(const leat::gpu::StreamRef& stream, std::size_t batch_size, std::uint64_t seed);

  /// Enqueues forward, backward and update. `images` [samples, kPixels] and `labels` [samples] are
  /// on the device; 1 <= samples <= batch_size.
  void train_step(const std::uint8_t* images, const std::uint8_t* labels, std::size_t samples,
                  const StepOptions& options);
  /// train_step() in two, for who changes the gradient in between: forward and backward, then
  /// update. The gradient is that of the batch's mean loss.
  void compute_gradient(const std::uint8_t* images, const std::uint8_t* labels,
                        std::size_t samples);
  void update(const StepOptions& options);
  /// compute_gradient() layer by layer, in this order, for who exchanges the gradients of a layer
  /// while those of the other one are still to be computed. Layer 1 is 784 -> 128.
  void forward1(const std::uint8_t* images, std::size_t samples);
  void forward2(const std::uint8_t* labels, std::size_t samples);
  void backward2(std::size_t samples);
  void backward1(std::size_t samples);
  /// update() of the parameters [first, first + count) alone.
  void update(std::size_t first, std::size_t count, const StepOptions& options);
  /// Enqueues forward alone, counting right answers into the metrics.
  void evaluate(const std::uint8_t* images, const std::uint8_t* labels, std::size_t samples);
  /// Waits for all that was enqueued; returns what was added up since the last call, and starts
  /// over.
  Metrics metrics();
  /// The same without waiting: enqueues the copy of a Metrics to `to`.
  void take_metrics(leat::gpu::PinnedSpan to);

  /// On the device, kParameters floats each (examples/03_mnist/kernels.h): to be used on the
  /// stream.
  [[nodiscard]] leat::gpu::DeviceSpan parameters() const noexcept { return parameters_.span(); }
  [[nodiscard]] leat::gpu::DeviceSpan gradient() const noexcept { return gradient_.span(); }
  [[nodiscard]] leat::gpu::DeviceSpan velocity() const noexcept { return velocity_.span(); }

 private:
  void forward2(const std::uint8_t* labels, std::size_t samples, float* dlogits);
  [[nodiscard]] static float* floats(const leat::gpu::DeviceBuffer& buffer) noexcept {
    return reinterpret_cast<float*>(buffer.data());
  }

  leat::gpu::StreamRef stream_;
  leat::gpu::DeviceBuffer parameters_, gradient_, velocity_;
  leat::gpu::DeviceBuffer input_, hidden_, logits_;  // of a batch
  leat::gpu::DeviceBuffer dlogits_, dhidden_;
  leat::gpu::DeviceBuffer metrics_, no_metrics_;  // the latter all zeros
  leat::gpu::PinnedBuffer staging_;  // parameters on their way in, metrics on their way out
};

}  // namespace mnist
