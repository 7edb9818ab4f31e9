// The compute kernels of the MNIST trainer: a perceptron 784 -> 128 (ReLU) -> 10, softmax
// cross-entropy, stochastic gradient descent with momentum.
//
// Every kernel exists twice, with the same arguments and the same mathematics: `mnist::host` runs
// it at once on the calling thread, `mnist::cuda` enqueues it on a stream. The two round
// differently in the last bits; each alone gives the same bits every time.
//
// One training step, here on the host:
//
//   using namespace mnist;
//   host::normalise({pixels, x, batch * kPixels});
//   host::linear_forward({x, p + kWeights1, p + kBias1, hidden, batch, kPixels, kHidden, true});
//   host::linear_forward({hidden, p + kWeights2, p + kBias2, logits, batch, kHidden, kClasses,
//                         false});
//   host::softmax_cross_entropy({logits, labels, dlogits, metrics, batch, kClasses});
//   host::linear_backward({hidden, p + kWeights2, dlogits, g + kWeights2, g + kBias2, dhidden,
//                          batch, kHidden, kClasses, true});
//   host::linear_backward({x, nullptr, dhidden, g + kWeights1, g + kBias1, nullptr,
//                          batch, kPixels, kHidden, false});
//   host::sgd_momentum({p, g, velocity, kParameters, learning_rate, momentum});
//
// Matrices are row-major and dense: x[B,in] holds element (b, i) at x[b * in + i]. All sizes are at
// least 1; the batch may change from call to call.
//
// Thread safety: no state, no allocation, no thread-locals; calls on distinct outputs may run at
// the same time. A host kernel never blocks, so a fiber may call it.
//
// Ownership: the arguments borrow. Memory is host memory for `host` and device memory for `cuda`,
// where it must stay alive until the stream has passed the kernel. Outputs overlap no inputs,
// except where a docstring says otherwise.
//
// Errors: `host` has none. A `cuda` launcher returns null, or the reason why the launch failed, a
// string that lives for ever. A fault while the kernel runs shows at the stream's next
// synchronisation.
//
// This header is C++17 and includes nothing of CUDA, so that both compilers read it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mnist {

/// Rows of an image, and its columns.
inline constexpr std::size_t kSide = 28;
/// Pixels of an image.
inline constexpr std::size_t kPixels = kSide * kSide;
/// Units of the hidden layer.
inline constexpr std::size_t kHidden = 128;
/// Digits.
inline constexpr std::size_t kClasses = 10;

/// Where each tensor starts in the one buffer that holds all parameters; the gradient and the
/// velocity have the same layout. Weights are [in,out].
inline constexpr std::size_t kWeights1 = 0;
inline constexpr std::size_t kBias1 = kWeights1 + kPixels * kHidden;
inline constexpr std::size_t kWeights2 = kBias1 + kHidden;
inline constexpr std::size_t kBias2 = kWeights2 + kHidden * kClasses;
/// Length of that buffer, in floats.
inline constexpr std::size_t kParameters = kBias2 + kClasses;

/// Mean and standard deviation of the training set's pixels, as fractions of full white.
inline constexpr float kPixelMean = 0.1307F;
inline constexpr float kPixelDeviation = 0.3081F;

/// What `softmax_cross_entropy` adds up over the batches. All bits zero is the start.
struct Metrics {
  double loss;            ///< Sum of the samples' losses; divided by `samples`, the mean.
  std::uint64_t correct;  ///< Samples whose largest logit is the label's.
  std::uint64_t samples;  ///< Samples seen.
};

/// y = (pixels / 255 - kPixelMean) / kPixelDeviation, element by element.
struct Normalise {
  const std::uint8_t* pixels;  ///< [count]
  float* y;                    ///< [count]
  std::size_t count;           ///< Pixels of all images, batch * kPixels.
};

/// y = x · weights + bias, then max(y, 0) where `relu`.
struct LinearForward {
  const float* x;        ///< [batch,inputs]
  const float* weights;  ///< [inputs,outputs]
  const float* bias;     ///< [outputs]
  float* y;              ///< [batch,outputs]
  std::size_t batch;
  std::size_t inputs;
  std::size_t outputs;
  bool relu;
};

/// The softmax of each row of logits, its cross-entropy with the label, and the gradient of the
/// batch's mean loss. Stable for logits of any finite size. Of equal logits the first is the guess.
struct SoftmaxCrossEntropy {
  const float* logits;         ///< [batch,classes]
  const std::uint8_t* labels;  ///< [batch], each below `classes`.
  float* dlogits;              ///< [batch,classes] or null (evaluation); may be `logits`.
  Metrics* metrics;            ///< Added to; successive batches must be ordered by the caller.
  std::size_t batch;
  std::size_t classes;
  float scale = 1.0F;  ///< The gradient is multiplied by it: a part of a larger batch.
};

/// The gradients of y = x · weights + bias, given that of y: all of them, or those of the
/// parameters alone, or that of the input alone.
struct LinearBackward {
  const float* x;        ///< [batch,inputs]
  const float* weights;  ///< [inputs,outputs]; unused, may be null, where `dx` is null.
  const float* dy;       ///< [batch,outputs]
  float* dweights;       ///< [inputs,outputs], xᵀ · dy; or null
  float* dbias;          ///< [outputs], the column sums of dy; null where `dweights` is
  float* dx;             ///< [batch,inputs], dy · weightsᵀ; or null (the first layer)
  std::size_t batch;
  std::size_t inputs;
  std::size_t outputs;
  bool relu;          ///< x came out of a ReLU: dx is 0 wherever x is not positive.
  bool adds = false;  ///< dweights and dbias are added to what is there, else stored.
};

/// velocity = momentum * velocity + gradient; parameters -= learning_rate * velocity.
struct SgdMomentum {
  float* parameters;      ///< [count]
  const float* gradient;  ///< [count]
  float* velocity;        ///< [count], zeros before the first step; `gradient` if momentum is 0
  std::size_t count;
  float learning_rate;
  float momentum;
};

/// The kernels on the calling thread, finished on return.
namespace host {
void normalise(const Normalise& args);
void linear_forward(const LinearForward& args);
void softmax_cross_entropy(const SoftmaxCrossEntropy& args);
void linear_backward(const LinearBackward& args);
void sgd_momentum(const SgdMomentum& args);
}  // namespace host

/// The kernels enqueued on `stream`, a cudaStream_t of the calling thread's current device.
namespace cuda {
/// Makes the device with that number the calling thread's current one. Before every launch on a
/// fiber, which may have moved to another thread since the last.
[[nodiscard]] const char* use_device(int number);
[[nodiscard]] const char* normalise(const Normalise& args, void* stream);
[[nodiscard]] const char* linear_forward(const LinearForward& args, void* stream);
[[nodiscard]] const char* softmax_cross_entropy(const SoftmaxCrossEntropy& args, void* stream);
[[nodiscard]] const char* linear_backward(const LinearBackward& args, void* stream);
[[nodiscard]] const char* sgd_momentum(const SgdMomentum& args, void* stream);
}  // namespace cuda

}  // namespace mnist
