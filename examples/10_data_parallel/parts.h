// What both trainings have: the network's tensors by layer, this rank's slice, figures of all
// ranks.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "examples/03_mnist/kernels.h"
#include "examples/03_mnist/network.h"
#include "examples/10_data_parallel/options.h"
#include "examples/10_data_parallel/train.h"
#include "leat/comm/communicator.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/stream.h"

namespace data_parallel {

/// A tensor's place in a buffer of all parameters.
struct Tensor {
  const char* name;
  std::size_t first;
  std::size_t count;
  [[nodiscard]] std::size_t bytes() const noexcept { return count * sizeof(float); }
};
/// In the order in which a forward needs them.
inline constexpr std::array<Tensor, 4> kTensors = {
    {{"weights1", mnist::kWeights1, mnist::kBias1 - mnist::kWeights1},
     {"bias1", mnist::kBias1, mnist::kWeights2 - mnist::kBias1},
     {"weights2", mnist::kWeights2, mnist::kBias2 - mnist::kWeights2},
     {"bias2", mnist::kBias2, mnist::kParameters - mnist::kBias2}}};
/// Those of such a buffer.
[[nodiscard]] std::vector<leat::comm::Gradient> tensors(const leat::gpu::DeviceSpan& all);

/// A layer: its two tensors above, and where its parameters are.
struct Layer {
  std::array<std::size_t, 2> tensors;
  std::size_t first;
  std::size_t count;
};
inline constexpr Layer kLayer1{{0, 1}, mnist::kWeights1, mnist::kWeights2 - mnist::kWeights1};
inline constexpr Layer kLayer2{{2, 3}, mnist::kWeights2, mnist::kParameters - mnist::kWeights2};

/// The slice of each global batch of one of these ranks.
[[nodiscard]] leat::feeder::PrefetcherOptions slice_of(const leat::comm::Communicator& ranks,
                                                       const Options& options);
/// The most samples of a slice.
[[nodiscard]] std::size_t most_samples(const leat::comm::Communicator& ranks,
                                       const Options& options);

/// What these ranks have after a training of `steps` steps: they evaluate slices of `test`, if it
/// is not null. A collective.
[[nodiscard]] Outcome outcome_of(const leat::comm::Communicator& ranks,
                                 const leat::gpu::Stream& stream, mnist::Network& network,
                                 std::uint64_t steps, const leat::feeder::Dataset* test,
                                 const Options& options);

}  // namespace data_parallel
