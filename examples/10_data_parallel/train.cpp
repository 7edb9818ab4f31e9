#include "examples/10_data_parallel/train.h"

#include <algorithm>
#include <cstring>

#include "examples/10_data_parallel/parts.h"
#include "examples/10_data_parallel/server_train.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/stream.h"

namespace data_parallel {
namespace comm = leat::comm;
using leat::feeder::Lease;
using leat::feeder::Prefetcher;
using mnist::Network;

Outcome train(const comm::Communicator& ranks, const leat::gpu::Device& device,
              const leat::feeder::Dataset& data, const leat::feeder::Dataset* test,
              const Options& options) {
  if (options.servers > 0) return train_with_servers(ranks, device, data, test, options);
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

  Outcome outcome = outcome_of(ranks, stream, network, steps, test, options);
  outcome.exchange = exchange.stats().report();
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
