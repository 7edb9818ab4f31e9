// Launches the trainer's kernels on whichever device a stream belongs to.
#pragma once

#include "examples/03_mnist/kernels.h"
#include "leat/gpu/stream.h"

namespace mnist {

/// Enqueues the kernel on `stream`: the host function on a device with host kernels, the CUDA
/// kernel on a CUDA device. Throws leat::gpu::GpuError. The arguments' memory is the stream's
/// device's.
void launch(const leat::gpu::StreamRef& stream, const Normalise& args);
void launch(const leat::gpu::StreamRef& stream, const LinearForward& args);
void launch(const leat::gpu::StreamRef& stream, const SoftmaxCrossEntropy& args);
void launch(const leat::gpu::StreamRef& stream, const LinearBackward& args);
void launch(const leat::gpu::StreamRef& stream, const SgdMomentum& args);

}  // namespace mnist
