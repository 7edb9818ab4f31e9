// Shows on the trainer's own loop what overlap is.
#pragma once

#include <string>

#include "examples/03_mnist/options.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/gpu/device.h"

namespace mnist {

/// Runs the training loop again, with copies that take as long as the computing: first in turns,
/// then overlapped. Returns what to print: three measured steps of each as a timeline, both to one
/// scale, and how much faster the mean step of the second is. On a device with host kernels the
/// link is modelled; elsewhere, batches have padding that makes them as large as it takes. Takes
/// about a second. Must be called on a fiber. Throws leat::Error.
[[nodiscard]] std::string show_overlap(const Options& options, const leat::gpu::Device& device,
                                       const leat::feeder::Mnist& training);

/// "1.90 ms a step in turns, 1.00 ms overlapped: 1.9 times as fast", of times in seconds.
[[nodiscard]] std::string verdict(double in_turns, double overlapped);

}  // namespace mnist
