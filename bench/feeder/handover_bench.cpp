// Host time that the loop spends on a batch that is ready: the hand-over, which is next() and
// on(stream), and the release.
//
// Only that is timed, one batch at a time; between two batches the loop waits, by the clock's
// absence, until the next one is staged for certain: the dataset counts the batches that readers
// have begun, and one that is begun P + 1 behind the next one (P pinned slots) needs a slot whose
// batch has been staged. Contents are checked outside the time, on the device.
//
// The loop is on a fiber of the prefetcher's scheduler, or on a plain thread beside it. Counters,
// in microseconds: p50_us, p99_us of the hand-over, release_p50_us and release_p99_us; n, how many.
// Reading the clock is in them, and is told: clock_us.

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/feeder/feed_data.h"
#include "bench/feeder/timing.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"

namespace {

using bench::guarded;
using bench::microseconds;
using bench::quantile;
using namespace leat::feeder;

constexpr std::size_t kSampleBytes = 4096;
constexpr std::size_t kBatch = 16;
constexpr std::size_t kPinnedSlots = 4;

/// Sample i is its number. Counts what was begun.
class Numbers final : public Dataset {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "numbers"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return std::uint64_t{1} << 30; }
  void read(std::uint64_t index, Sample& out) const override {
    begun_.store(index / kBatch + 1, std::memory_order_release);
    std::memcpy(out.bytes(0).data(), &index, sizeof index);
  }
  /// Batches; read in order, by one worker.
  [[nodiscard]] std::uint64_t begun() const noexcept {
    return begun_.load(std::memory_order_acquire);
  }

 private:
  std::vector<Field> fields_{{"number", DType::kUint8, {kSampleBytes}}};
  mutable std::atomic<std::uint64_t> begun_{0};
};

template <class Yield>
void loop(benchmark::State& state, Yield yield) {
  const leat::Clock& clock = leat::SteadyClock::instance();
  const Numbers data;
  const auto device = leat::gpu::open_host({});
  const leat::gpu::Stream stream(device);
  Prefetcher feed(data, device,
                  {.batch_size = kBatch,
                   .prefetch_depth = 4,
                   .pinned_slots = kPinnedSlots,
                   .order = Order::kSequential});
  std::vector<double> times;
  std::vector<double> releases;
  for (auto* const each : {&times, &releases}) {
    each->reserve(static_cast<std::size_t>(state.max_iterations));
  }
  bool is_right = true;
  std::uint64_t next = 0;
  const auto take = [&] {
    Lease batch = feed.next().value();
    batch.on(stream);
    stream.launch_host([&is_right, next, bytes = batch["number"].data<std::uint8_t>()] {
      std::uint64_t number = 0;
      std::memcpy(&number, bytes, sizeof number);
      is_right = is_right && number == next * kBatch;
    });
    ++next;
  };
  const auto wait = [&] {
    while (data.begun() < next + kPinnedSlots + 2) yield();
  };
  for (int i = 0; i < 100; ++i) {
    take();
    wait();
  }
  for (auto _ : state) {
    take();  // one that is checked, and one that is timed
    wait();
    stream.sync();
    const leat::TimePoint start = clock.now();
    Lease batch = feed.next().value();
    batch.on(stream);
    const leat::TimePoint bound = clock.now();
    batch.release();
    const leat::TimePoint released = clock.now();
    ++next;
    state.SetIterationTime(std::chrono::duration<double>(bound - start).count());
    times.push_back(microseconds(bound - start));
    releases.push_back(microseconds(released - bound));
    wait();
  }
  stream.sync();
  if (!is_right) state.SkipWithError("wrong data in a batch");

  std::vector<double> clocks(1000);
  for (double& time : clocks) {
    const leat::TimePoint start = clock.now();
    time = microseconds(clock.now() - start);
  }
  state.counters["p50_us"] = quantile(times, 0.5);
  state.counters["p99_us"] = quantile(times, 0.99);
  state.counters["release_p50_us"] = quantile(releases, 0.5);
  state.counters["release_p99_us"] = quantile(releases, 0.99);
  state.counters["clock_us"] = quantile(clocks, 0.5);
  state.counters["n"] = static_cast<double>(times.size());
}

void handover_to_fiber(benchmark::State& state) {
  guarded(state, [&] { leat::run([&] { loop(state, [] { leat::yield(); }); }); });
}
void handover_to_thread(benchmark::State& state) {
  guarded(state, [&] { loop(state, [] { std::this_thread::yield(); }); });
}

void how(benchmark::internal::Benchmark* row) {
  row->UseManualTime()->Iterations(bench::is_quick() ? 200 : 10'000);
}
BENCHMARK(handover_to_fiber)->Apply(how);
BENCHMARK(handover_to_thread)->Apply(how);

}  // namespace
