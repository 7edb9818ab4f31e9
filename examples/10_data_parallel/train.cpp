#include "examples/10_data_parallel/train.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "examples/03_mnist/kernels.h"
#include "examples/03_mnist/network.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/stream.h"

namespace data_parallel {
namespace {

namespace comm = leat::comm;
using leat::feeder::Lease;
using leat::feeder::Prefetcher;
using leat::feeder::PrefetcherOptions;
using mnist::Network;

// The tensors in a buffer of all parameters, in the order in which a forward needs them.
std::vector<comm::Gradient> tensors(const leat::gpu::DeviceSpan& all) {
  const auto part = [&](const char* name, std::size_t first, std::size_t end) {
    return comm::Gradient{
        .name = name, .data = all.subspan(first * sizeof(float), (end - first) * sizeof(float))};
  };
  return {part("weights1", mnist::kWeights1, mnist::kBias1),
          part("bias1", mnist::kBias1, mnist::kWeights2),
          part("weights2", mnist::kWeights2, mnist::kBias2),
          part("bias2", mnist::kBias2, mnist::kParameters)};
}

// A layer: its two tensors above, and where its parameters are.
struct Layer {
  std::array<std::size_t, 2> tensors;
  std::size_t first;
  std::size_t count;
};
constexpr Layer kLayer1{{0, 1}, mnist::kWeights1, mnist::kWeights2 - mnist::kWeights1};
constexpr Layer kLayer2{{2, 3}, mnist::kWeights2, mnist::kParameters - mnist::kWeights2};

// This rank's slice of each global batch.
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

Outcome train(const comm::Communicator& ranks, const leat::gpu::Device& device,
              const leat::feeder::Dataset& data, const leat::feeder::Dataset* test,
              const Options& options) {
  const mnist::StepOptions rate{.learning_rate = options.learning_rate};
  const leat::gpu::Stream stream(device);
  // The seeds differ: before broadcast(), so do the weights.
  Network network(stream, most_samples(ranks, options),
                  options.seed + static_cast<std::uint64_t>(ranks.rank()));
  comm::ExchangeOptions exchange_options = options.exchange;
  exchange_options.device = device;
  std::uint64_t steps = 0;

  Prefetcher feed(data, device, slice_of(ranks, options));

  // [data_parallel]
  comm::GradientExchange exchange(ranks, tensors(network.gradient()), exchange_options);
  exchange.broadcast(tensors(network.parameters()), 0);  // all begin as rank 0
  const auto update = [&](const Layer& layer) {
    for (const std::size_t i : layer.tensors) exchange.await(i, stream);  // the mean of all ranks
    if (steps > 0) network.update(layer.first, layer.count, rate);
  };
  const auto train_step = [&](Lease& batch) {
    const std::size_t samples = batch.size();  // of this rank's slice, perhaps none
    update(kLayer1);
    if (samples > 0) network.forward1(batch["image"].data<std::uint8_t>(), samples);
    update(kLayer2);  // which came while layer 1 was computed
    if (samples > 0) network.forward2(batch["label"].data<std::uint8_t>(), samples);
    exchange.begin_step(samples);
    if (samples == 0) return;  // this rank gets the results
    network.backward2(samples);
    for (const std::size_t i : kLayer2.tensors) exchange.ready(i, stream);  // they leave at once
    network.backward1(samples);
    for (const std::size_t i : kLayer1.tensors) exchange.ready(i, stream);
    exchange.end_backward();
  };
  // [/data_parallel]

  for (std::uint64_t epoch = 0; epoch < options.epochs; ++epoch) {
    for (Lease& batch : feed.epoch(epoch, stream)) {
      train_step(batch);
      if (++steps == options.steps) break;
    }
    if (steps == options.steps) break;
  }
  update(kLayer1);
  update(kLayer2);

  Outcome outcome{.weights = copy_of(network, stream), .steps = steps};
  const mnist::Metrics trained = sum_of(ranks, network.metrics());
  outcome.loss = trained.loss / static_cast<double>(trained.samples);
  outcome.exchange = exchange.stats().report();
  if (test == nullptr) return outcome;
  Prefetcher test_feed(*test, device, slice_of(ranks, options));
  for (Lease& batch : test_feed.epoch(0, stream)) {
    if (batch.size() == 0) continue;
    network.evaluate(batch["image"].data<std::uint8_t>(), batch["label"].data<std::uint8_t>(),
                     batch.size());
  }
  const mnist::Metrics tested = sum_of(ranks, network.metrics());
  outcome.accuracy =
      100.0 * static_cast<double>(tested.correct) / static_cast<double>(tested.samples);
  return outcome;
}

leat::gpu::Device open_device(const std::string& kind, int local, int locals) {
  int gpus = 0;
  for (const leat::gpu::DeviceInfo& one : leat::gpu::list().devices) {
    if (one.name.starts_with("cuda")) ++gpus;
  }
  const bool is_cuda = kind == "cuda" || (kind == "auto" && gpus >= locals);
  return leat::gpu::open(is_cuda ? "cuda:" + std::to_string(local % std::max(gpus, 1))
                                 : "host:" + std::to_string(local));
}

std::uint64_t digest(std::span<const float> weights) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325U;  // FNV-1a, of words
  for (const float weight : weights) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &weight, sizeof bits);
    hash = (hash ^ bits) * 0x100000001B3U;
  }
  return hash;
}

}  // namespace data_parallel
