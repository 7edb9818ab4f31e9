// What the sums of a collective cost: inputs, outputs, and the bytes of each.
#include "leat/comm/transports/reduce.h"

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace leat::comm {
namespace {

// bytes_per_second counts what is read and what is written.
void reduce_to(benchmark::State& state, DType dtype, bool in_place) {
  const auto ranks = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  const auto outputs_too = in_place ? std::size_t{1} : std::size_t{2};
  std::vector<std::vector<std::byte>> memory(ranks * outputs_too,
                                             std::vector<std::byte>(bytes, std::byte{0x35}));
  std::vector<Input> inputs(ranks);
  std::vector<void*> outputs(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    inputs[r].data = memory[r].data();
    outputs[r] = memory[in_place ? r : ranks + r].data();
  }
  for (auto _ : state) {
    reduce(dtype, Reduction::kSum, inputs, outputs, 0, bytes / gpu::size_of(dtype));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(2 * ranks * bytes));
}

void arguments(benchmark::internal::Benchmark* bench) {
  for (const int ranks : {1, 2, 4, 8}) {
    for (const int bytes : {4, 64 << 10, 16 << 20}) bench->Args({ranks, bytes});
  }
}
BENCHMARK_CAPTURE(reduce_to, float32, DType::kFloat32, false)->Apply(arguments);
BENCHMARK_CAPTURE(reduce_to, float32_in_place, DType::kFloat32, true)->Apply(arguments);
BENCHMARK_CAPTURE(reduce_to, float16, DType::kFloat16, false)->Apply(arguments);
BENCHMARK_CAPTURE(reduce_to, bfloat16, DType::kBFloat16, false)->Apply(arguments);
BENCHMARK_CAPTURE(reduce_to, float64, DType::kFloat64, false)->Apply(arguments);
BENCHMARK_CAPTURE(reduce_to, int32, DType::kInt32, false)->Apply(arguments);

}  // namespace
}  // namespace leat::comm
