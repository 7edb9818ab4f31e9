// What an exchange of gradients costs beside its sums: pieces of 4 bytes, and the steps of a model
// whose gradients are there at once.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "bench/peers/comm/peer.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"

namespace {

using leat::comm::Policy;

// One rank's gradients, of so many floats each.
struct Gradients {
  explicit Gradients(const std::vector<std::size_t>& sizes) {
    for (const std::size_t size : sizes) {
      memory.emplace_back(size, 1.0F);
      const leat::gpu::DeviceSpan data(reinterpret_cast<std::byte*>(memory.back().data()),
                                       size * sizeof(float));
      list.push_back({.name = "gradient " + std::to_string(list.size()), .data = data});
    }
  }
  std::vector<std::vector<float>> memory;
  std::vector<leat::comm::Gradient> list;
};

void step(leat::comm::GradientExchange& exchange) {
  exchange.begin_step(1);
  for (std::size_t i = exchange.size(); i-- > 0;) exchange.ready(i);
  exchange.end_backward();
  exchange.await_all();
}

// Steps of four ranks. All gradients are 1, and so are their means.
void measure(benchmark::State& state, const std::vector<std::size_t>& sizes,
             const leat::comm::ExchangeOptions& options) {
  const auto n = static_cast<std::int64_t>(state.max_iterations);
  peer::Batches batches(n);
  double pieces = 0;
  leat::TaskGroup group;
  std::vector<leat::comm::Communicator> ranks = leat::comm::open("local:4");
  for (const leat::comm::Communicator& rank : ranks) {
    group.go([&] {
      Gradients gradients(sizes);
      leat::comm::GradientExchange exchange(rank, gradients.list, options);
      step(exchange);  // makes what later ones use again
      if (rank.rank() == 0) {
        batches.begin();
        for (auto _ : state) {
          step(exchange);
          batches.end_operation();
        }
        const leat::comm::ExchangeStats stats = exchange.stats();
        pieces = static_cast<double>(stats.pieces) / static_cast<double>(stats.steps);
      } else {
        for (std::int64_t i = 0; i < n; ++i) step(exchange);
      }
      for (const std::vector<float>& one : gradients.memory) {
        if (std::ranges::any_of(one, [](float value) { return value != 1; })) {
          state.SkipWithError("wrong result");
        }
      }
    });
  }
  group.wait();
  state.counters["median_ns"] = batches.median();
  state.counters["pieces"] = pieces;
  state.counters["ns_per_piece_and_rank"] =
      batches.median() / pieces / static_cast<double>(ranks.size());
}

void run(benchmark::State& state, const std::vector<std::size_t>& sizes,
         const leat::comm::ExchangeOptions& options) {
  try {
    leat::run([&] { measure(state, sizes, options); }, {.workers = 2});
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

// 1,024 pieces of one float: of 16 gradients, or (buckets are made of whole ones) of as many.
void pieces(benchmark::State& state, Policy policy) {
  const std::size_t gradients = policy == Policy::kBucketed ? 1024 : 16;
  run(state, std::vector<std::size_t>(gradients, 1024 / gradients),
      {.policy = policy, .partition_bytes = 4, .bucket_bytes = {4}});
}

// The parameters of ResNet-50, whose layers have `width` / 64 of their channels: 161 gradients.
std::vector<std::size_t> resnet50(std::size_t width) {
  std::vector<std::size_t> sizes;
  const auto convolution = [&](std::size_t in, std::size_t out, std::size_t kernel) {
    sizes.push_back(in * out * kernel * kernel);
    sizes.insert(sizes.end(), 2, out);  // of its normalisation
  };
  convolution(3, width, 7);
  std::size_t in = width;
  std::size_t inner = width;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      convolution(in, inner, 1);
      convolution(inner, inner, 3);
      convolution(inner, 4 * inner, 1);
      if (block == 0) convolution(in, 4 * inner, 1);
      in = 4 * inner;
    }
    inner *= 2;
  }
  sizes.push_back(in * 1000);
  sizes.push_back(1000);
  return sizes;
}

void resnet50_step(benchmark::State& state, Policy policy) {
  run(state, resnet50(static_cast<std::size_t>(state.range(0))), {.policy = policy});
}

BENCHMARK_CAPTURE(pieces, fifo, Policy::kFifo)->UseRealTime();
BENCHMARK_CAPTURE(pieces, priority, Policy::kPriority)->UseRealTime();
BENCHMARK_CAPTURE(pieces, bucketed, Policy::kBucketed)->UseRealTime();
void widths(benchmark::internal::Benchmark* row) {
  row->ArgName("width")->Arg(2)->Arg(64)->UseRealTime();
}
BENCHMARK_CAPTURE(resnet50_step, fifo, Policy::kFifo)->Apply(widths);
BENCHMARK_CAPTURE(resnet50_step, priority, Policy::kPriority)->Apply(widths);
BENCHMARK_CAPTURE(resnet50_step, bucketed, Policy::kBucketed)->Apply(widths);

}  // namespace
