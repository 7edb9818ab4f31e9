#include "examples/03_mnist/launch.h"

#include <cstdlib>
#include <string>

#include "leat/gpu/error.h"
#include "leat/gpu/stream.h"

namespace mnist {
namespace {

// N of "cuda:N".
int number_of(const leat::gpu::Device& device) {
  return std::atoi(device.name().c_str() + device.name().find(':') + 1);
}

template <class Args>
void launch_on(const leat::gpu::StreamRef& stream, const Args& args, void (*host)(const Args&),
               const char* (*cuda)(const Args&, void*), const char* name) {
  const leat::gpu::Device& device = stream.device();
  if (device.capabilities().host_kernels) {
    stream.launch_host([host, args] { host(args); });
    return;
  }
  const char* error = cuda::use_device(number_of(device));
  if (error == nullptr) error = cuda(args, stream.native_handle());
  if (error != nullptr) throw leat::gpu::GpuError(0, error, name, device.name(), "");
}

}  // namespace

void launch(const leat::gpu::StreamRef& stream, const Normalise& args) {
  launch_on(stream, args, &host::normalise, &cuda::normalise, "normalise");
}

void launch(const leat::gpu::StreamRef& stream, const LinearForward& args) {
  launch_on(stream, args, &host::linear_forward, &cuda::linear_forward, "linear_forward");
}

void launch(const leat::gpu::StreamRef& stream, const SoftmaxCrossEntropy& args) {
  launch_on(stream, args, &host::softmax_cross_entropy, &cuda::softmax_cross_entropy,
            "softmax_cross_entropy");
}

void launch(const leat::gpu::StreamRef& stream, const LinearBackward& args) {
  launch_on(stream, args, &host::linear_backward, &cuda::linear_backward, "linear_backward");
}

void launch(const leat::gpu::StreamRef& stream, const SgdMomentum& args) {
  launch_on(stream, args, &host::sgd_momentum, &cuda::sgd_momentum, "sgd_momentum");
}

}  // namespace mnist
