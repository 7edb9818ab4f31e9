#include "examples/10_data_parallel/server_train.h"

#include <array>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/10_data_parallel/parts.h"
#include "leat/comm/parameter_server.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/stream.h"

namespace data_parallel {
namespace {

namespace comm = leat::comm;
using leat::feeder::Lease;
using leat::feeder::Prefetcher;
using mnist::Network;

comm::ServerOptions server_options(const comm::Communicator& ranks, const Options& options) {
  const mnist::StepOptions step{.learning_rate = options.learning_rate};
  comm::ServerOptions all{.servers = {},
                          .synchronous = !options.asynchronous,
                          .staleness = options.staleness,
                          .optimizer = comm::Momentum{step.learning_rate, step.momentum},
                          .policy = options.exchange.policy,
                          .partition_bytes = options.exchange.partition_bytes,
                          .credit_bytes = options.exchange.credit_bytes};
  for (int rank = ranks.size() - options.servers; rank < ranks.size(); ++rank) {
    all.servers.push_back(rank);
  }
  return all;
}

std::vector<comm::Parameter> parameters(const Network& network) {
  std::vector<comm::Parameter> all;
  for (const Tensor& one : kTensors) {
    const std::size_t first = one.first * sizeof(float);
    all.push_back({.name = one.name,
                   .weights = network.parameters().subspan(first, one.bytes()),
                   .gradient = network.gradient().subspan(first, one.bytes())});
  }
  return all;
}

// A server needs the sizes alone.
Outcome serve(const comm::Communicator& ranks, const Options& options) {
  std::vector<comm::Parameter> sizes;
  for (const Tensor& one : kTensors) {
    const leat::gpu::DeviceSpan size(nullptr, one.bytes());
    sizes.push_back({.name = one.name, .weights = size, .gradient = size});
  }
  comm::ParameterServer server(ranks, sizes, server_options(ranks, options));
  server.serve();
  return {.exchange = server.stats().report()};
}

// Waits until it has ended, if it has begun.
void await(std::optional<comm::Completion>& one) {
  if (one.has_value()) one->await();
  one.reset();
}

}  // namespace

Outcome train_with_servers(const comm::Communicator& ranks, const leat::gpu::Device& device,
                           const leat::feeder::Dataset& data, const leat::feeder::Dataset* test,
                           const Options& options) {
  if (options.servers >= ranks.size()) {
    throw std::invalid_argument("--servers " + std::to_string(options.servers) + ": of " +
                                std::to_string(ranks.size()) + " ranks none would train");
  }
  const bool serves = ranks.rank() >= ranks.size() - options.servers;
  const std::optional<comm::Communicator> workers = ranks.split(serves ? -1 : 0);
  if (serves) return serve(ranks, options);

  const leat::gpu::Stream stream(device);
  // The seeds differ: without the servers, so would the weights.
  Network network(stream, most_samples(*workers, options),
                  options.seed + static_cast<std::uint64_t>(ranks.rank()));
  comm::ServerOptions its_options = server_options(ranks, options);
  its_options.device = device;
  std::uint64_t steps = 0;

  Prefetcher feed(data, device, slice_of(*workers, options));

  // [servers]
  comm::ParameterServer server(ranks, parameters(network), its_options);  // all begin as rank 0
  struct UnderWay {
    std::optional<comm::Completion> send, fetch;
  } one, two;  // of each layer
  const auto send_and_fetch = [&](const Layer& layer, UnderWay& its) {
    its.send = server.send_vars(layer.tensors, stream);  // behind its backward; they leave at once
    its.fetch = server.fetch_vars(layer.tensors, stream);  // what the servers make of them
  };
  const auto train_step = [&](Lease& batch) {
    const std::size_t samples = batch.size();  // of this worker's slice, perhaps none
    server.begin_step(samples);
    await(one.fetch);
    if (samples > 0) network.forward1(batch["image"].data<std::uint8_t>(), samples);
    await(two.fetch);  // which came while layer 1 was computed
    if (samples > 0) {
      network.forward2(batch["label"].data<std::uint8_t>(), samples);
      await(two.send);  // its gradient is overwritten now
      network.backward2(samples);
      send_and_fetch(kLayer2, two);
      await(one.send);
      network.backward1(samples);
      send_and_fetch(kLayer1, one);
    }
    if (!options.asynchronous) server.send_barrier().await();
    if (samples > 0) return;  // else the others have changed the weights
    one.fetch = server.fetch_vars(kLayer1.tensors, stream);
    two.fetch = server.fetch_vars(kLayer2.tensors, stream);
  };
  // [/servers]

  for (std::uint64_t epoch = 0; epoch < options.epochs; ++epoch) {
    for (Lease& batch : feed.epoch(epoch, stream)) {
      train_step(batch);
      if (++steps == options.steps) break;
    }
    if (steps == options.steps) break;
  }
  for (std::optional<comm::Completion>* const it : {&one.send, &two.send, &one.fetch, &two.fetch}) {
    await(*it);
  }
  workers->barrier().await();  // the gradients of all workers are there
  server.fetch_vars(std::array<std::size_t, 4>{0, 1, 2, 3}, stream).await();
  server.serve();  // leaves

  Outcome outcome = outcome_of(*workers, stream, network, steps, test, options);
  outcome.exchange = server.stats().report();
  return outcome;
}

}  // namespace data_parallel
