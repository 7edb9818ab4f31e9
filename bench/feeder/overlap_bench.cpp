// How close a feeding loop comes to max(Tc, Tx) on the host device in real time.
//
// The link is modelled: a copy occupies it for Tx. So is compute, unless a CPU is asked for: a
// kernel occupies the engine for Tc, waiting, not burning CPU, and what is measured is what Leat
// and the machine's timers add. On a CPU, the kernel computes for Tc, and the stages share what is
// left. An iteration is one step; every batch's bytes are checked. Arguments: Tx and Tc in
// microseconds, prefetch_depth, whether a CPU computes. Counters:
//   ratio      mean time of a step, on the device from the end of the first kernel to that of the
//              last, / the ideal one: max(Tc, Tx) as asked for, at depth 1 their sum. 1 is perfect
//   late_us    the step's time beyond the ideal one, in microseconds
//   OE         as the prefetcher reports it, hence against Tx and Tc as measured: a kernel
//              that ends late because its timer was late is a longer kernel to it
//   bubble_p50_us, bubble_p99_us, Tx_us, Tc_us   likewise

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "leat/overlap/compute.h"

namespace {

using namespace leat::feeder;

constexpr std::size_t kSampleBytes = 4096;
constexpr std::size_t kBatch = 16;

/// Sample i is its number, 4 KiB of it.
class Numbers final : public Dataset {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "numbers"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return std::uint64_t{1} << 30; }
  void read(std::uint64_t index, Sample& out) const override {
    std::memcpy(out.bytes(0).data(), &index, sizeof index);
  }

 private:
  std::vector<Field> fields_{{"number", DType::kUint8, {kSampleBytes}}};
};

void loop(benchmark::State& state) {
  const double t_x = static_cast<double>(state.range(0)) * 1e-6;
  const auto t_c = std::chrono::microseconds(state.range(1));
  const bool on_cpu = state.range(3) != 0;
  Stats stats;
  double steps = 0;  // time of all but the first
  leat::run([&] {
    const Numbers data;
    const auto device =
        leat::gpu::open_host({.h2d_bandwidth = static_cast<double>(kBatch * kSampleBytes) / t_x});
    const leat::gpu::Stream stream(device);
    Prefetcher feed(data, device,
                    {.batch_size = kBatch,
                     .prefetch_depth = static_cast<std::size_t>(state.range(2)),
                     .order = Order::kSequential,
                     .sample_every = 2});
    const leat::gpu::Event first(device, leat::gpu::Timing::kOn);
    const leat::gpu::Event last(device, leat::gpu::Timing::kOn);
    std::uint64_t expected = 0;
    bool wrong = false;
    const auto step = [&] {
      Lease batch = feed.next().value();
      batch.on(stream);
      const auto kernel = [&, bytes = batch["number"].data<std::uint8_t>()] {
        for (std::size_t i = 0; i < kBatch; ++i) {
          std::uint64_t number = 0;
          std::memcpy(&number, bytes + i * kSampleBytes, sizeof number);
          wrong = wrong || number != expected++;
        }
        if (on_cpu) overlap::compute_for(t_c);
      };
      stream.launch_host(kernel, on_cpu ? leat::Duration::zero() : t_c);
    };
    step();
    first.record(stream);
    for (auto _ : state) step();
    last.record(stream);
    stream.sync();
    steps = std::chrono::duration<double>(leat::gpu::elapsed(first, last)).count();
    stats = feed.stats();
    if (wrong) state.SkipWithError("wrong data in a batch");
  });
  const double compute = std::chrono::duration<double>(t_c).count();
  const double ideal = state.range(2) == 1 ? t_x + compute : std::max(t_x, compute);
  const double step = steps / static_cast<double>(state.iterations());
  state.counters["ratio"] = step / ideal;
  state.counters["late_us"] = 1e6 * (step - ideal);
  state.counters["OE"] = stats.overlap_efficiency();
  state.counters["bubble_p50_us"] = 1e6 * stats.bubble.p50;
  state.counters["bubble_p99_us"] = 1e6 * stats.bubble.p99;
  state.counters["Tx_us"] = 1e6 * stats.t_x;
  state.counters["Tc_us"] = 1e6 * stats.t_c;
}
BENCHMARK(loop)
    ->ArgNames({"Tx_us", "Tc_us", "depth", "cpu"})
    ->ArgsProduct({{500, 1000, 5000}, {1000, 5000}, {1, 2}, {0, 1}})
    ->UseRealTime();

}  // namespace
