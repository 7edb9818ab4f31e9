#include "examples/10_data_parallel/parts.h"

#include <cstring>

namespace data_parallel {
namespace {

namespace comm = leat::comm;
using leat::feeder::Lease;
using leat::feeder::Prefetcher;
using leat::feeder::PrefetcherOptions;
using mnist::Network;

// The figures of all ranks.
mnist::Metrics sum_of(const comm::Communicator& ranks, const mnist::Metrics& mine) {
  std::array<double, 3> sums = {mine.loss, static_cast<double>(mine.correct),
                                static_cast<double>(mine.samples)};
  ranks.all_reduce(sums).await();
  return {sums[0], static_cast<std::uint64_t>(sums[1]), static_cast<std::uint64_t>(sums[2])};
}

std::vector<float> copy_of(const Network& network, const leat::gpu::Stream& stream) {
  const leat::gpu::PinnedBuffer host(stream.device(), network.parameters().size());
  copy_async(stream, host.span(), network.parameters());
  stream.sync();
  std::vector<float> weights(mnist::kParameters);
  std::memcpy(weights.data(), host.data(), host.size());
  return weights;
}

}  // namespace

std::vector<comm::Gradient> tensors(const leat::gpu::DeviceSpan& all) {
  std::vector<comm::Gradient> parts;
  parts.reserve(std::size(kTensors));
  for (const Tensor& one : kTensors) {
    parts.push_back(
        {.name = one.name, .data = all.subspan(one.first * sizeof(float), one.bytes())});
  }
  return parts;
}

PrefetcherOptions slice_of(const comm::Communicator& ranks, const Options& options) {
  // [slice]
  return {.batch_size = options.global_batch,  // of all ranks together
          .seed = options.seed,
          .rank = static_cast<std::size_t>(ranks.rank()),
          .world_size = static_cast<std::size_t>(ranks.size())};
  // [/slice]
}

std::size_t most_samples(const comm::Communicator& ranks, const Options& options) {
  const auto size = static_cast<std::size_t>(ranks.size());
  return (options.global_batch + size - 1) / size;
}

Outcome outcome_of(const comm::Communicator& ranks, const leat::gpu::Stream& stream,
                   Network& network, std::uint64_t steps, const leat::feeder::Dataset* test,
                   const Options& options) {
  Outcome outcome{.weights = copy_of(network, stream), .steps = steps};
  const mnist::Metrics trained = sum_of(ranks, network.metrics());
  outcome.loss = trained.loss / static_cast<double>(trained.samples);
  if (test == nullptr) return outcome;
  Prefetcher feed(*test, stream.device(), slice_of(ranks, options));
  for (Lease& batch : feed.epoch(0, stream)) {
    if (batch.size() == 0) continue;
    network.evaluate(batch["image"].data<std::uint8_t>(), batch["label"].data<std::uint8_t>(),
                     batch.size());
  }
  const mnist::Metrics tested = sum_of(ranks, network.metrics());
  outcome.accuracy =
      100.0 * static_cast<double>(tested.correct) / static_cast<double>(tested.samples);
  return outcome;
}

}  // namespace data_parallel
