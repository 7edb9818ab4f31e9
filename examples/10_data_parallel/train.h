// One rank of a training, and what all ranks have in the end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "examples/10_data_parallel/options.h"
#include "leat/comm/communicator.h"
#include "leat/feeder/dataset.h"
#include "leat/gpu/device.h"

namespace data_parallel {

/// What a rank has after the training.
struct Outcome {
  /// All parameters, as examples/03_mnist/kernels.h lays them out. None on a parameter server.
  std::vector<float> weights;
  std::uint64_t steps = 0;
  double loss = 0.0;      ///< mean of the training samples, of all ranks
  double accuracy = 0.0;  ///< of the test set, in percent; 0 without one
  std::string exchange;   ///< what the exchange, or parameter server, has measured on this rank
};

/// Trains as rank `ranks.rank()`, on its slice of each global batch, or serves, if it is one of
/// options.servers. `test` may be null. Every rank calls it, each with a device of its own. Throws
/// comm::CommError, gpu::GpuError, std::invalid_argument.
[[nodiscard]] Outcome train(const leat::comm::Communicator& ranks, const leat::gpu::Device& device,
                            const leat::feeder::Dataset& data, const leat::feeder::Dataset* test,
                            const Options& options);

/// The device of the `local`-th of `locals` ranks on this machine, of the kind "host", "cuda"
/// (ranks share the GPUs if there are fewer), or "auto": CUDA, if there is a GPU for each rank.
[[nodiscard]] leat::gpu::Device open_device(const std::string& kind, int local, int locals);

/// 64 bits that differ if a bit of the weights does.
[[nodiscard]] std::uint64_t digest(std::span<const float> weights) noexcept;

}  // namespace data_parallel
