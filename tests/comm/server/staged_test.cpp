// Parameters in memory that the CPU does not reach: they go through pinned slots, and the weights
// are those of parameters in host memory, bit for bit.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <vector>

#include "leat/comm/parameter_server.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/stream.h"
#include "tests/comm/support/far_device.h"
#include "tests/comm/support/layers.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace server_staged_test {

using namespace std::chrono_literals;
using support::Layers;

const std::vector<std::size_t> kCounts = {5, 0, 333, 1, 64};
constexpr int kSteps = 4;

/// A worker's parameters on a device. All of it is done on one stream.
class FarLayers {
 public:
  FarLayers(const gpu::Device& device, const std::vector<std::size_t>& counts) : stream(device) {
    for (const std::size_t count : counts) {
      const std::size_t bytes = count * sizeof(float);
      weights_.emplace_back(device, bytes);
      gradients_.emplace_back(device, bytes);
      pinned_.emplace_back(device, bytes);
      parameters.push_back({.name = "layer " + std::to_string(parameters.size()),
                            .weights = weights_.back().span(),
                            .gradient = gradients_.back().span()});
    }
  }
  void write(const gpu::DeviceSpan& to, std::size_t i, const std::vector<float>& values) {
    if (values.empty()) return;
    stream.sync();  // what was written before has left the pinned memory
    std::memcpy(pinned_[i].data(), values.data(), values.size() * sizeof(float));
    copy_async(stream, to, pinned_[i].span());
  }
  [[nodiscard]] std::vector<float> read_weights(std::size_t i) {
    copy_async(stream, pinned_[i].span(), weights_[i].span());
    stream.sync();
    std::vector<float> values(pinned_[i].size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), pinned_[i].data(), pinned_[i].size());
    return values;
  }
  gpu::Stream stream;
  std::vector<Parameter> parameters;

 private:
  std::vector<gpu::DeviceBuffer> weights_, gradients_;
  std::vector<gpu::PinnedBuffer> pinned_;
};

std::vector<float> values_of(int rank, int step, std::size_t layer, std::size_t count) {
  std::mt19937 random(static_cast<std::uint32_t>(1'000 * rank + 100 * step) +
                      static_cast<std::uint32_t>(layer));
  std::vector<float> values(count);
  for (float& one : values) one = static_cast<float>(random() % 2'000) / 1'000 - 1;
  return values;
}

/// Trains on this rank, and returns each step's weights. Calls write(span, layer, values),
/// send(layer), fetch(layer) and read(layer).
template <class Write, class Send, class Fetch, class Read>
std::vector<std::vector<float>> train(ParameterServer& server, int rank,
                                      const std::vector<Parameter>& parameters, const Write& write,
                                      const Send& send, const Fetch& fetch, const Read& read) {
  std::vector<std::vector<float>> all;
  for (int step = 1; step <= kSteps; ++step) {
    server.begin_step(static_cast<std::uint64_t>(1 + rank));
    std::vector<Completion> open;
    for (std::size_t i = parameters.size(); i-- > 0;) {
      write(parameters[i].gradient, i, values_of(rank, step, i, kCounts[i]));
      open.push_back(send(i));
      open.push_back(fetch(i));
    }
    open.push_back(server.send_barrier());
    for (Completion& one : open) one.await();
    for (std::size_t i = 0; i < parameters.size(); ++i) all.push_back(read(i));
  }
  server.serve();
  return all;
}

ServerOptions any_options(std::uint32_t seed, int ranks) {
  ServerOptions options{.servers = {ranks - 1}, .optimizer = Momentum{}};
  if (seed % 3 == 0) options.servers = {0};
  options.policy = seed % 2 == 0 ? Policy::kFifo : Policy::kPriority;
  options.partition_bytes = 4 + 60 * (seed % 5);
  options.credit_bytes = options.partition_bytes * (1 + seed % 4);
  if (seed % 4 == 0) {
    for (int rank = 0; rank < ranks; ++rank) options.workers.push_back(rank);
  }
  return options;
}

std::vector<std::vector<float>> train_near(Communicator& me, const ServerOptions& options) {
  Layers layers(kCounts);
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    layers.weights[i] = values_of(me.rank(), 0, i, kCounts[i]);
  }
  const std::vector<Parameter> parameters = layers.parameters();
  ParameterServer server(me, parameters, options);
  const bool is_worker = !options.workers.empty() || options.servers[0] != me.rank();
  if (!is_worker) {
    server.serve();
    return {};
  }
  return train(
      server, me.rank(), parameters,
      [&](const gpu::DeviceSpan&, std::size_t i, const std::vector<float>& values) {
        layers.gradients[i] = values;
      },
      [&](std::size_t i) { return server.send_vars(i); },
      [&](std::size_t i) { return server.fetch_vars(i); },
      [&](std::size_t i) { return layers.weights[i]; });
}

std::vector<std::vector<float>> train_far(Communicator& me, ServerOptions options,
                                          const gpu::HostModel& model) {
  const gpu::Device device = support::open_far(model);
  options.device = device;
  FarLayers layers(device, kCounts);
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    layers.write(layers.parameters[i].weights, i, values_of(me.rank(), 0, i, kCounts[i]));
  }
  layers.stream.sync();
  ParameterServer server(me, layers.parameters, options);
  const bool is_worker = !options.workers.empty() || options.servers[0] != me.rank();
  if (!is_worker) {
    server.serve();
    return {};
  }
  return train(
      server, me.rank(), layers.parameters,
      [&](const gpu::DeviceSpan& to, std::size_t i, const std::vector<float>& values) {
        layers.write(to, i, values);
      },
      [&](std::size_t i) { return server.send_vars(i, layers.stream); },
      [&](std::size_t i) { return server.fetch_vars(i, layers.stream); },
      [&](std::size_t i) { return layers.read_weights(i); });
}

class ServerStaged : public support::RankTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, ServerStaged, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

void compare(const support::RankPlace& place, std::uint32_t seeds, const gpu::HostModel& model) {
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "seed " << seed);
    const int ranks = 2 + static_cast<int>(seed % 3);
    place.run(ranks, {}, [&](Communicator& me) {
      const ServerOptions options = any_options(seed, ranks);
      const auto near = train_near(me, options);
      const auto far = train_far(me, options, model);
      EXPECT_EQ(near, far) << "rank " << me.rank();
      EXPECT_EQ(near.empty(), options.workers.empty() && options.servers[0] == me.rank());
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(ServerStaged, WeightsAreThoseOfHostMemory) {
  compare(GetParam(), static_cast<std::uint32_t>(leat::support::rounds(20)), {});
}

TEST_P(ServerStaged, WeightsAreTheSameWhereCopiesTakeTime) {
  compare(GetParam(), static_cast<std::uint32_t>(leat::support::rounds(10)),
          {.h2d_bandwidth = 1e9, .d2h_bandwidth = 2e9, .copy_latency = 1us});
}

// More pieces than calls have room: copies that have run at once come back without a call.
TEST_P(ServerStaged, ThousandsOfPiecesAreUnderWayAtOnce) {
  on_ranks(2, [](Communicator& me) {
    const gpu::Device device = support::open_far();
    FarLayers layers(device, {3'000});
    layers.write(layers.parameters[0].weights, 0, std::vector<float>(3'000, 7));
    layers.stream.sync();
    ParameterServer server(me, layers.parameters,
                           {.servers = {1},
                            .optimizer = Sgd{1},
                            .partition_bytes = 4,
                            .credit_bytes = ~std::size_t{0},
                            .device = device});
    if (me.rank() == 1) return server.serve();
    server.begin_step(1);
    layers.write(layers.parameters[0].gradient, 0, std::vector<float>(3'000, 2));
    Completion sent = server.send_vars(0, layers.stream);
    server.fetch_vars(0, layers.stream).await();
    sent.await();
    server.send_barrier().await();
    EXPECT_EQ(layers.read_weights(0), std::vector<float>(3'000, 5));
  });
}

// The device of worker 1 fails at each of its operations in turn.
TEST_P(ServerStaged, ADeviceThatFailsIsAnErrorOnEveryRank) {
  for (std::uint64_t at = 1; at <= 14; ++at) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "operation " << at);
    on_ranks(3, [&](Communicator& me) {
      gpu::HostModel model;
      if (me.rank() == 1) model.faults.lost_at = at;
      try {
        static_cast<void>(
            train_far(me, {.servers = {2}, .partition_bytes = 64, .credit_bytes = 128}, model));
        ADD_FAILURE() << "no error on rank " << me.rank();
      } catch (const CommError& error) {
        EXPECT_EQ(error.peer(), 1) << error.what();
      } catch (const gpu::GpuError&) {
        EXPECT_EQ(me.rank(), 1);
      }
    });
  }
}

}  // namespace server_staged_test
}  // namespace leat::comm
