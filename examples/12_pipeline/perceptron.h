// The network that the pipeline trains, cut into stages: a perceptron 784 -> 7 x 128 -> 10 of eight
// layers, with the kernels of examples/03_mnist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "examples/03_mnist/kernels.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/pipeline/stage.h"

namespace pipelined {

inline constexpr std::size_t kLayers = 8;

/// The width of what goes into a layer, and of what comes out.
struct Layer {
  std::size_t inputs;
  std::size_t outputs;
  /// Weights, then biases.
  [[nodiscard]] constexpr std::size_t parameters() const noexcept { return (inputs + 1) * outputs; }
};
[[nodiscard]] constexpr Layer layer(std::size_t number) noexcept {
  return {number == 0 ? mnist::kPixels : mnist::kHidden,
          number + 1 == kLayers ? mnist::kClasses : mnist::kHidden};
}

/// Adjacent layers, on a device. A ReLU is behind each layer but the last; the gradients that
/// stages exchange are those of the ReLU's input, so a stage does not keep its output.
///
/// Thread safety: as any Stage. What a stage reads must stay there until the work of the
/// step has run.
class PerceptronStage final : public leat::pipeline::Stage {
 public:
  /// The `number`-th of `stages` about equal parts, 1 to kLayers of them. The parameters are drawn
  /// from `seed`, whatever `stages`. Waits for the device. Throws GpuError.
  PerceptronStage(const leat::gpu::Device& device, std::size_t number, std::size_t stages,
                  std::uint64_t seed);

  [[nodiscard]] leat::pipeline::StageMemory memory() const override;
  void forward(const leat::pipeline::Microbatch& m) override;
  void backward_input(const leat::pipeline::Microbatch& m) override;
  void backward_weight(const leat::pipeline::Microbatch& m) override;
  /// "weights0", "biases0", …, by layer.
  [[nodiscard]] std::vector<leat::comm::Gradient> gradients() const override;

  /// Where the first stage finds the next step's images [samples, kPixels], on the device.
  void read_images(const std::uint8_t* images) noexcept { images_ = images; }
  /// Where the last stage finds its labels [samples].
  void read_labels(const std::uint8_t* labels) noexcept { labels_ = labels; }
  /// Enqueues: the gradient is zero.
  void zero_gradient(const leat::gpu::StreamRef& stream) const;
  /// Enqueues plain SGD.
  void update(const leat::gpu::StreamRef& stream, float learning_rate) const;
  /// Waits for the stream. Of the last stage: what was added up since the last call.
  [[nodiscard]] mnist::Metrics take_metrics(const leat::gpu::StreamRef& stream) const;

  /// Which stage it is.
  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  /// The layers: [first_layer(), end_layer()).
  [[nodiscard]] std::size_t first_layer() const noexcept { return first_; }
  [[nodiscard]] std::size_t end_layer() const noexcept { return end_; }
  [[nodiscard]] bool is_first() const noexcept { return first_ == 0; }
  [[nodiscard]] bool is_last() const noexcept { return end_ == kLayers; }
  /// On the device, layer by layer: Layer::parameters() floats each.
  [[nodiscard]] leat::gpu::DeviceSpan parameters() const noexcept { return parameters_.span(); }
  [[nodiscard]] leat::gpu::DeviceSpan gradient() const noexcept { return gradient_.span(); }

 private:
  // A layer, and where its memory is. Offsets are in floats, of one sample in a microbatch's
  // memory.
  struct Part {
    Layer layer;
    std::size_t parameters;  // in parameters_ and gradient_
    std::size_t x;           // its input in `kept`
    std::size_t dx;          // its input's gradient in `left`
  };
  [[nodiscard]] float* input(std::size_t part, const leat::pipeline::Microbatch& m) const;
  [[nodiscard]] float* output(std::size_t part, const leat::pipeline::Microbatch& m) const;
  [[nodiscard]] float* input_gradient(std::size_t part, const leat::pipeline::Microbatch& m) const;
  [[nodiscard]] float* output_gradient(std::size_t part, const leat::pipeline::Microbatch& m) const;
  [[nodiscard]] bool relu_before(std::size_t part) const noexcept { return first_ + part > 0; }

  std::size_t number_, first_, end_;
  std::vector<Part> parts_;
  std::size_t kept_ = 0, left_ = 0;  // floats of a sample; `kept` ends with the logits, if any
  leat::gpu::DeviceBuffer parameters_, gradient_, zeros_;
  leat::gpu::DeviceBuffer metrics_;
  leat::gpu::PinnedBuffer staging_;  // parameters on their way in, metrics on their way out
  const std::uint8_t* images_ = nullptr;
  const std::uint8_t* labels_ = nullptr;
};

}  // namespace pipelined
