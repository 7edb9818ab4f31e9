// A stage: a part of the user's model, which the executor calls.
//
// Example
//   class Linear : public leat::pipeline::Stage {
//     leat::pipeline::StageMemory memory() const override {
//       return {.input = 128 * 4, .output = 128 * 4};     // bytes of one sample
//     }
//     void forward(const Microbatch& m) override {
//       launch_gemm(m.stream.native_handle(), m.input.data(), weights_, m.output.data(),
//                   m.samples);
//     }
//     …
//   };
//
// Each function enqueues work on `stream` and returns; it does not wait for the device. One fiber
// at a time calls a stage: its rank's fiber, which has a stack of 1 MiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/stream.h"

namespace leat::pipeline {

/// Bytes that a stage needs for one sample of a microbatch, in its device's memory.
struct StageMemory {
  std::size_t input = 0;   ///< what it gets from the stage before; 0 for the first
  std::size_t output = 0;  ///< what the next stage gets, equal to its input; 0 for the last
  std::size_t kept = 0;    ///< what forward leaves for the backward, beside input and output
  std::size_t left = 0;    ///< what backward_input leaves for backward_weight
};

/// A microbatch at a stage, in one call. The views are of whole samples, aligned to 256 bytes, and
/// empty where StageMemory says 0. A microbatch keeps its memory from its forward to its last
/// backward; what a function has not written there is undefined.
struct Microbatch {
  gpu::StreamRef stream;
  std::int32_t stage = 0;
  std::int32_t index = 0;     ///< of the microbatch, 0 to B - 1
  std::uint64_t first = 0;    ///< its first sample in the step's batch
  std::uint64_t samples = 0;  ///< how many it has: at least 1
  /// Its samples / N. The last stage multiplies the gradient of the microbatch's mean loss by it.
  /// The sum over microbatches is then the gradient of the mean over N.
  double weight = 0;
  bool evaluates = false;  ///< forward alone: no backward will come
  gpu::DeviceSpan input;
  gpu::DeviceSpan output;
  gpu::DeviceSpan kept;
  gpu::DeviceSpan left;
  gpu::DeviceSpan output_gradient;  ///< of the loss by `output`; empty for the last stage and in
                                    ///< forward
  gpu::DeviceSpan input_gradient;   ///< of the loss by `input`; empty for stage 0, and outside
                                    ///< backward_input
};

/// A part of a model. The executor does not own it; it outlives the executor.
class Stage {
 public:
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  /// What it needs for a sample. Constant.
  [[nodiscard]] virtual StageMemory memory() const = 0;
  /// Enqueues the forward: from `input` to `output`; the first stage reads the caller's samples,
  /// the last one computes the loss.
  virtual void forward(const Microbatch& m) = 0;
  /// Enqueues the gradient of the input: from `output_gradient` to `input_gradient`, and `left`.
  virtual void backward_input(const Microbatch& m) = 0;
  /// Enqueues the gradient of the weights, and adds it to what has accumulated.
  virtual void backward_weight(const Microbatch& m) = 0;

  /// The gradients that data-parallel replicas sum, all in this stage's device's memory. Constant.
  [[nodiscard]] virtual std::vector<comm::Gradient> gradients() const { return {}; }
  /// UNSHARD: enqueues what makes the weights whole.
  virtual void unshard(const gpu::StreamRef& /*stream*/) {}
  /// RESHARD: enqueues what takes them apart again.
  virtual void reshard(const gpu::StreamRef& /*stream*/) {}
};

}  // namespace leat::pipeline
