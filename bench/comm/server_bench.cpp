// What a parameter server costs: the update of an optimizer beside plain loops over as much memory,
// and a push and a fetch beside a memcpy of as many bytes.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include "bench/peers/comm/peer.h"
#include "leat/comm/communicator.h"
#include "leat/comm/parameter_server.h"
#include "leat/comm/server/update.h"

namespace leat::comm {
namespace {

// ---- updates. bytes_per_second counts what is read and what is written.

void count_streams(benchmark::State& state, std::size_t count, std::size_t streams) {
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(streams * count * sizeof(float)));
}

void copy(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  std::vector<float> to(count, 0.0F);
  const std::vector<float> from(count, 1.0F);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), count * sizeof(float));
    benchmark::ClobberMemory();
  }
  count_streams(state, count, 2);
}

// In place, as where nobody fetches meanwhile.
void updates(benchmark::State& state, const Optimizer& optimizer) {
  const auto count = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  const std::size_t states = states_of(optimizer);
  std::vector<float> weights(count, 1.0F);
  const std::vector<float> gradient(count, 1e-9F);
  std::vector<float> kept(states * count, 0.0F);
  std::uint64_t step = 0;
  for (auto _ : state) {
    update(optimizer, weights.data(), weights.data(), gradient.data(), kept.data(), count, ++step);
    benchmark::ClobberMemory();
  }
  count_streams(state, count, 3 + 2 * states);
}

// ---- pieces

std::vector<Parameter> one_parameter(std::vector<float>& weights, std::vector<float>& gradient) {
  const auto span = [](std::vector<float>& values) {
    return gpu::DeviceSpan(values.data(), values.size() * sizeof(float));
  };
  return {{.name = "w", .weights = span(weights), .gradient = span(gradient)}};
}

// The median time of so many calls of act().
template <class Act>
double median_of(std::int64_t times, const Act& act) {
  for (int i = 0; i < 10; ++i) act();
  peer::Batches batches(times);
  batches.begin();
  for (std::int64_t i = 0; i < times; ++i) {
    act();
    batches.end_operation();
  }
  return batches.median();
}

enum class Calls : std::uint8_t { kFetch, kPushAndFetch };

// One worker, one server, each a plain thread; asynchronous. `memcpys`: in copies of the bytes.
void pieces(benchmark::State& state, Calls calls) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<float> weights(bytes / sizeof(float), 1.0F);
  std::vector<float> gradient(bytes / sizeof(float), 1e-9F);
  double median = 0;
  std::optional<std::exception_ptr> error;
  {
    std::vector<Communicator> ranks = open("local:2");
    const ServerOptions options{.servers = {1}, .synchronous = false, .optimizer = Sgd{}};
    const std::jthread serving([&, me = std::move(ranks[1])] {
      try {
        ParameterServer server(me, one_parameter(weights, gradient), options);
        server.serve();
      } catch (const std::exception&) {
        error = std::current_exception();
      }
    });
    ParameterServer server(ranks[0], one_parameter(weights, gradient), options);
    const auto act = [&] {
      if (calls == Calls::kFetch) return server.fetch_vars(0).await();
      server.begin_step(1);
      Completion sent = server.send_vars(0);
      server.fetch_vars(0).await();
      sent.await();
    };
    for (auto _ : state) {
      median = median_of(2'000, act);
      state.SetIterationTime(median * 1e-9);
    }
  }
  if (error.has_value()) state.SkipWithError("the server has failed");
  std::vector<float> to(weights.size());
  const double copy = median_of(10'000, [&] {
    std::memcpy(to.data(), weights.data(), bytes);
    benchmark::ClobberMemory();
  });
  state.counters["median_us"] = median / 1e3;
  state.counters["memcpy_us"] = copy / 1e3;
  state.counters["memcpys"] = median / copy;
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const int bytes : {1 << 20, 64 << 20}) bench->Arg(bytes);
}
BENCHMARK(copy)->Apply(sizes);
BENCHMARK_CAPTURE(updates, sgd, Sgd{})->Apply(sizes);
BENCHMARK_CAPTURE(updates, momentum, Momentum{})->Apply(sizes);
BENCHMARK_CAPTURE(updates, adam, Adam{})->Apply(sizes);
BENCHMARK_CAPTURE(pieces, fetch, Calls::kFetch)
    ->Arg(4)
    ->Arg(1 << 20)
    ->Iterations(1)
    ->UseManualTime();
BENCHMARK_CAPTURE(pieces, push_and_fetch, Calls::kPushAndFetch)
    ->Arg(4)
    ->Arg(1 << 20)
    ->Iterations(1)
    ->UseManualTime();

}  // namespace
}  // namespace leat::comm
