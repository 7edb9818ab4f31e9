// Stands in for kernels_cuda.cu in a build without the CUDA Toolkit, where no device calls these.
#include "examples/03_mnist/kernels.h"

namespace mnist::cuda {
namespace {

constexpr const char* kAbsent = "built without the CUDA Toolkit";

}  // namespace

const char* use_device(int /*number*/) { return kAbsent; }
const char* normalise(const Normalise& /*args*/, void* /*stream*/) { return kAbsent; }
const char* linear_forward(const LinearForward& /*args*/, void* /*stream*/) { return kAbsent; }
const char* softmax_cross_entropy(const SoftmaxCrossEntropy& /*args*/, void* /*stream*/) {
  return kAbsent;
}
const char* linear_backward(const LinearBackward& /*args*/, void* /*stream*/) { return kAbsent; }
const char* sgd_momentum(const SgdMomentum& /*args*/, void* /*stream*/) { return kAbsent; }

}  // namespace mnist::cuda
