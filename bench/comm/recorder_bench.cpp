// What the flight recorder adds to an operation.
#include <benchmark/benchmark.h>

#include "leat/comm/recorder/flight_recorder.h"
#include "leat/comm/transports/operation.h"

namespace leat::comm {
namespace {

// The begin and the end of one operation, of a tensor with a name.
void record(benchmark::State& state) {
  FlightRecorder recorder(0, 2);
  Operation operation;
  operation.signature = {.kind = OperationKind::kAllReduce, .count = 1 << 20};
  operation.label = "transformer.layers.11.attention.output.weight";
  TimePoint at{};
  for (auto _ : state) {
    at += Duration(100);
    recorder.end(recorder.begin(operation, 42, at), at, false);
    ++operation.signature.number;
  }
}
BENCHMARK(record);

}  // namespace
}  // namespace leat::comm
