// How long it takes to destroy a prefetcher at a random moment, beyond the device work that was
// queued: the end of ~Prefetcher, less its beginning or the end of that work, whichever is later.
//
//   leave_files    while token windows are read as fast as the loop takes them (2 workers)
//   leave_slow     while a read takes 1 ms for each sample, of 256 a batch, on a thread that blocks
//   leave_queued   with kernels queued on the loop's stream that take 2 ms each
//
// Real time, the host device, a plain thread. Moments are up to 10 ms after the first batch, as a
// seed has it. Counters, in microseconds: p50_us, p99_us, most_us; n, how many.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/feeder/feed_data.h"
#include "bench/feeder/timing.h"
#include "leat/csp/clock.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/token_shards.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"

namespace {

using bench::guarded;
using bench::microseconds;
using bench::quantile;
using namespace leat::feeder;
using namespace std::chrono_literals;

constexpr std::size_t kLongBatch = 256;

/// The first batch at once, the others a millisecond for each sample.
class Slow final : public Dataset {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "slow"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return std::uint64_t{1} << 20; }
  void read(std::uint64_t index, Sample& out) const override {
    if (index >= kLongBatch) std::this_thread::sleep_for(1ms);
    out.as<std::uint64_t>(0)[0] = index;
  }
  [[nodiscard]] Blocking blocking() const noexcept override { return Blocking::kOften; }

 private:
  std::vector<Field> fields_{{"number", DType::kUint64, {}}};
};

/// What the loop does with its batches until the moment to leave has come.
enum class Loop : std::uint8_t { kTakesAll, kTakesOne, kQueuesKernels };

struct What {
  const Dataset& data;
  std::size_t batch_size;
  std::size_t workers;
  Loop loop;
};

void leave(benchmark::State& state, const What& what) {
  constexpr leat::Duration kKernel = 2ms;
  const leat::Clock& clock = leat::SteadyClock::instance();
  const auto device = leat::gpu::open_host({});
  const leat::gpu::Stream stream(device);
  std::mt19937_64 random(bench::kSeed);
  std::uniform_int_distribution<std::int64_t> moments(0, 10'000);  // microseconds
  std::vector<double> times;
  for (auto _ : state) {
    auto feed = std::make_unique<Prefetcher>(
        what.data, device,
        PrefetcherOptions{
            .batch_size = what.batch_size, .workers = what.workers, .order = Order::kSequential});
    std::atomic<leat::TimePoint> kernels_end{leat::TimePoint::min()};
    const auto use = [&](Lease batch) {
      if (what.loop != Loop::kQueuesKernels) return;
      batch.on(stream);
      stream.launch_host([] {}, kKernel);
      batch.release();
      stream.launch_host([&] { kernels_end.store(clock.now()); });
    };
    use(feed->next().value());
    const leat::TimePoint moment = clock.now() + std::chrono::microseconds(moments(random));
    while (clock.now() < moment) {
      if (what.loop == Loop::kTakesOne) {
        std::this_thread::yield();
      } else if (std::optional<Lease> batch = feed->next()) {
        use(std::move(*batch));
      }
    }
    const leat::TimePoint start = clock.now();
    feed.reset();
    const leat::TimePoint end = clock.now();
    stream.sync();
    const leat::Duration took =
        std::max(end - std::max(start, kernels_end.load()), leat::Duration::zero());
    state.SetIterationTime(std::chrono::duration<double>(took).count());
    times.push_back(microseconds(took));
  }
  state.counters["p50_us"] = quantile(times, 0.5);
  state.counters["p99_us"] = quantile(times, 0.99);
  state.counters["most_us"] = *std::ranges::max_element(times);
  state.counters["n"] = static_cast<double>(times.size());
}

void leave_files(benchmark::State& state) {
  guarded(state, [&] {
    const TokenShards text(bench::FeedData::instance().tokens(), {.sequence_length = 1024});
    leave(state, {.data = text, .batch_size = 32, .workers = 2, .loop = Loop::kTakesAll});
  });
}
void leave_slow(benchmark::State& state) {
  guarded(state, [&] {
    const Slow slow;
    leave(state, {.data = slow, .batch_size = kLongBatch, .workers = 2, .loop = Loop::kTakesOne});
  });
}
void leave_queued(benchmark::State& state) {
  guarded(state, [&] {
    const TokenShards text(bench::FeedData::instance().tokens(), {.sequence_length = 1024});
    leave(state, {.data = text, .batch_size = 32, .workers = 1, .loop = Loop::kQueuesKernels});
  });
}

void how(benchmark::internal::Benchmark* row) {
  row->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(bench::is_quick() ? 20 : 1000);
}
BENCHMARK(leave_files)->Apply(how);
BENCHMARK(leave_slow)->Apply(how);
BENCHMARK(leave_queued)->Apply(how);

}  // namespace
