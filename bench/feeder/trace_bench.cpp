// What a trace costs: host time of a step of an empty loop over staged batches, while its batches
// are recorded and while none are. Argument: 1 with a trace, 0 without one.
//
// The loop does nothing, and a batch is 8 bytes: all that takes time is Leat's, on the fibers of
// one thread. So the difference of the two rows is the cost of a recorded batch.

#include "leat/feeder/trace.h"

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/function.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace {

using namespace leat::feeder;

constexpr std::size_t kBatches = 50'000;

void step(benchmark::State& state) {
  leat::run(
      [&] {
        const FunctionDataset data("numbers", {{"number", DType::kInt64, {}}}, 4 * kBatches,
                                   [](std::uint64_t index, Sample& out) {
                                     out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(index);
                                   });
        const auto device = leat::gpu::open("host");
        const leat::gpu::Stream stream(device);
        const auto trace = state.range(0) == 0
                               ? nullptr
                               : std::make_shared<Trace>(TraceOptions{.batches = 2 * kBatches});
        Prefetcher feed(data, device, {.batch_size = 1, .trace = trace, .sample_every = 0});
        std::int64_t sum = 0;
        for (auto _ : state) {
          Lease batch = feed.next().value();
          batch.on(stream);
          sum += static_cast<std::int64_t>(batch.index());
        }
        benchmark::DoNotOptimize(sum);
      },
      {.workers = 1});
}
BENCHMARK(step)->ArgName("trace")->Arg(0)->Arg(1)->Iterations(kBatches)->UseRealTime();

}  // namespace
