// Whether a step takes as long as its simulation, in real time. Counters:
//   ratio          simulated / measured: 1 is perfect
//   measured_ms    the median step
//   simulated_ms
//   capacity       places of a channel
// modelled: R = 8, B = 16; kernels of the host device that take 5 ms, 30 % more or less by stage
// and function, and no CPU. computing: R = 2, B = 16; kernels that compute on a CPU, of about those
// times; the simulation has the medians of what the stages' kernels took in the same steps.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "bench/pipeline/stages.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/kinds.h"
#include "leat/pipeline/simulate.h"

namespace {

using namespace pipeline_bench;
using leat::pipeline::Kind;
using std::chrono::microseconds;

constexpr std::int32_t kMicrobatches = 16;

// 5 ms, 30 % more or less: the same for a stage and function in every run.
leat::Duration time_of(std::int32_t stage, int function) {
  const int spread = (stage * 7 + function * 5) % 13;  // 0 to 12
  return microseconds(3500 + spread * 250);
}

leat::pipeline::StageCost cost_of(const MeasuredStage& stage, std::int32_t index, Work work) {
  std::array<std::int64_t, kFunctions> ticks{};  // of a nanosecond
  for (int f = 0; f < kFunctions; ++f) {
    ticks[static_cast<std::size_t>(f)] =
        (work == Work::kComputes ? stage.median(static_cast<Function>(f)) : time_of(index, f))
            .count();
  }
  return {.forward = ticks[kForward],
          .backward_input = ticks[kBackwardInput],
          .backward_weight = ticks[kBackwardWeight]};
}

void measure(benchmark::State& state, Kind kind, Work work) {
  const leat::pipeline::Schedule schedule =
      make(kind, {.ranks = work == Work::kComputes ? 2 : 8, .microbatches = kMicrobatches});
  const std::int64_t operations =
      work == Work::kComputes ? operations_for(microseconds(1000)) : 0;  // of a millisecond
  Parts parts = make_parts(schedule, [&](std::int32_t stage) {
    MeasuredStage::Options options{.index = stage, .stages = schedule.stages, .work = work};
    for (int f = 0; f < kFunctions; ++f) {
      const auto at = static_cast<std::size_t>(f);
      options.times[at] = time_of(stage, f);
      options.operations[at] = operations * time_of(stage, f).count() / 1'000'000;
    }
    return options;
  });
  leat::pipeline::Executor executor(schedule, std::move(parts.ranks),
                                    {.most_samples = kMicrobatches});
  executor.step(kMicrobatches);  // makes what later ones use again
  for (const auto& stage : parts.stages) stage->forget_times();

  std::vector<leat::Duration> steps;
  for (auto _ : state) {
    const leat::TimePoint start = leat::SteadyClock::instance().now();
    executor.step(kMicrobatches);
    steps.push_back(leat::SteadyClock::instance().now() - start);
  }
  if (!parts.are_right((1 + steps.size()) * kMicrobatches)) {
    state.SkipWithError("a wrong value, or another number of calls than there have to be");
    return;
  }
  leat::pipeline::CostModel model{.stages = {}, .capacity = executor.capacity()};
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage) {
    model.stages.push_back(cost_of(*parts.stages[static_cast<std::size_t>(stage)], stage, work));
  }
  const auto simulated =
      static_cast<double>(leat::pipeline::makespan(executor.schedule(), model).value());
  std::ranges::sort(steps);
  const auto measured = static_cast<double>(steps[steps.size() / 2].count());
  state.counters["ratio"] = simulated / measured;
  state.counters["measured_ms"] = measured * 1e-6;
  state.counters["simulated_ms"] = simulated * 1e-6;
  state.counters["capacity"] = executor.capacity();
}

void run(benchmark::State& state, Kind kind, Work work) {
  try {
    leat::run([&] { measure(state, kind, work); }, {.workers = 2});
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

const int kRegistered = [] {
  for (const Kind kind : leat::pipeline::kinds()) {
    const std::string name(leat::pipeline::name(kind));
    benchmark::RegisterBenchmark(("modelled/" + name).c_str(), run, kind, Work::kModelled)
        ->Iterations(3)
        ->UseRealTime();
    benchmark::RegisterBenchmark(("computing/" + name).c_str(), run, kind, Work::kComputes)
        ->Iterations(5)
        ->UseRealTime();
  }
  return 0;
}();

}  // namespace
