// What an action costs: steps of stages that do nothing, all ranks in one process, 1 KiB a
// transfer. Arguments: ranks, microbatches. Counters:
//   ns_per_action   of a step, for each F or B of all ranks, with its transfers
//   median_ns       a step
#include <benchmark/benchmark.h>

#include <cstdint>
#include <exception>

#include "bench/peers/comm/peer.h"
#include "bench/pipeline/stages.h"
#include "leat/csp/scheduler.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/kinds.h"

namespace {

using namespace pipeline_bench;
using leat::pipeline::Kind;

void measure(benchmark::State& state, Kind kind) {
  const auto ranks = static_cast<std::int32_t>(state.range(0));
  const auto microbatches = static_cast<std::int32_t>(state.range(1));
  const leat::pipeline::Schedule schedule =
      make(kind, {.ranks = ranks, .microbatches = microbatches});
  const auto samples = static_cast<std::uint64_t>(microbatches);
  Parts parts = make_parts(schedule, [&](std::int32_t stage) {
    return MeasuredStage::Options{.index = stage, .stages = schedule.stages};
  });
  leat::pipeline::Executor executor(schedule, std::move(parts.ranks), {.most_samples = samples});
  executor.step(samples);  // makes what later ones use again

  peer::Batches batches(static_cast<std::int64_t>(state.max_iterations));
  batches.begin();
  for (auto _ : state) {
    executor.step(samples);
    batches.end_operation();
  }
  if (!parts.are_right((1 + static_cast<std::uint64_t>(state.iterations())) * samples)) {
    state.SkipWithError("a function was not called as often as it has to be");
  }
  state.counters["median_ns"] = batches.median();
  state.counters["ns_per_action"] = batches.median() / (2.0 * microbatches * schedule.stages);
}

void action(benchmark::State& state, Kind kind) {
  try {
    leat::run([&] { measure(state, kind); }, {.workers = 2});
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

void shapes(benchmark::internal::Benchmark* one) {
  one->ArgNames({"ranks", "microbatches"})->UseRealTime();
  for (const int ranks : {2, 4, 8}) one->Args({ranks, 16});
}
BENCHMARK_CAPTURE(action, gpipe, Kind::kGpipe)->Apply(shapes);
BENCHMARK_CAPTURE(action, one_f_one_b, Kind::kOneFOneB)->Apply(shapes);
BENCHMARK_CAPTURE(action, zbv, Kind::kZbv)->Apply(shapes);

}  // namespace
