// What it costs to learn that the device has come to an event.
//
//   <how>/<duration>   round trip: a kernel of that duration is launched, an event recorded, and
//                      its end waited for. Waiting with `await` against `sync` is the time from
//                      the event's completion to the fiber running, against cudaEventSynchronize,
//                      which spins. Counters: p50_us, p99_us, and what is allocated for each
//   <how>/idle         an event that is not reached for a second. Counter: cpu, the CPU time of the
//                      whole process in that second, in seconds
//
// How:
//   sync      EventRef::sync on a plain thread
//   await     EventRef::await on a fiber
//   on_done   select with on_done on a fiber
//   (on the host device all of them are fibers' work in the end)
//
// Compare rows of one run, taken in turns: --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/gpu/device_main.h"
#include "bench/gpu/hold.h"
#include "bench/gpu/load.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/stream.h"

namespace {

using namespace bench;
using namespace std::chrono_literals;

// Ways to wait, and where.

struct Sync {
  static constexpr const char* kName = "sync";
  static constexpr bool kOnFiber = false;
  static void wait(const leat::gpu::Event& event) { event.sync(); }
};

struct Await {
  static constexpr const char* kName = "await";
  static constexpr bool kOnFiber = true;
  static void wait(const leat::gpu::Event& event) { event.await(); }
};

struct OnDone {
  static constexpr const char* kName = "on_done";
  static constexpr bool kOnFiber = true;
  static void wait(const leat::gpu::Event& event) { leat::select(leat::gpu::on_done(event)); }
};

/// Calls `body` where that way is for: on this thread, or on a fiber that may move between workers.
template <class How, class F>
void in_its_place(F&& body) {
  if constexpr (How::kOnFiber) {
    leat::run([&] {
      leat::TaskGroup group;
      group.go([&] { body(); });
      group.wait();
    });
  } else {
    body();
  }
}

double now() { return seconds(leat::SteadyClock::instance().now().time_since_epoch()); }

double process_cpu() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class How>
void round_trips(benchmark::State& state, const leat::gpu::Device& device,
                 leat::Duration duration) {
  const leat::gpu::Stream stream(device);
  const leat::gpu::Event event(device);
  {
    Hold hold(device);
    fill_pools(device, hold);
  }
  std::vector<double> samples;
  samples.reserve(static_cast<std::size_t>(state.max_iterations));
  bool too_early = false;
  const auto round_trip = [&] {
    const double start = now();
    enqueue_kernel(stream, duration);
    event.record(stream);
    How::wait(event);
    const double took = now() - start;
    too_early = too_early || !event.is_done() || took < seconds(duration);
    return took;
  };
  in_its_place<How>([&] {
    constexpr double kWarmUp = 0.1;  // seconds, in which the scheduler's threads have come up too
    for (const double start = now(); now() - start < kWarmUp;) static_cast<void>(round_trip());
    const Allocations before;
    while (state.KeepRunning()) {
      samples.push_back(round_trip());
      state.SetIterationTime(samples.back());
    }
    count_allocations(state, device, before, static_cast<double>(samples.size()));
  });
  if (too_early) return fail(state, "woken before the kernel had ended");
  state.counters["p50_us"] = 1e6 * quantile(samples, 0.5);
  state.counters["p99_us"] = 1e6 * quantile(samples, 0.99);
}

template <class How>
void idle(benchmark::State& state, const leat::gpu::Device& device) {
  const leat::gpu::Stream stream(device);
  const leat::gpu::Event event(device);
  double cpu = 0;
  double wall = 0;
  bool too_early = false;
  Hold hold(device);
  while (state.KeepRunning()) {
    hold.close(stream);
    event.record(stream);
    // A plain thread opens it: the fibers have nothing to do meanwhile.
    std::thread opener([&] {
      std::this_thread::sleep_for(50ms);  // whoever waits has begun to
      const double cpu_start = process_cpu();
      const double start = now();
      std::this_thread::sleep_for(1s);
      wall = now() - start;
      cpu = process_cpu() - cpu_start;
      too_early = too_early || event.is_done();
      hold.open();
    });
    in_its_place<How>([&] { How::wait(event); });
    opener.join();
    state.SetIterationTime(wall);
  }
  if (too_early || hold.expired()) return fail(state, "the event was reached too early");
  state.counters["cpu"] = cpu / wall;
}

template <class How>
void add_way(const leat::gpu::Device& device, const Options& options) {
  for (const auto duration : {50us, 500us}) {
    const std::string name =
        std::string(How::kName) + "/" + std::to_string(duration.count()) + "us";
    benchmark::RegisterBenchmark(name.c_str(),
                                 [device, duration](benchmark::State& state) {
                                   guarded(state,
                                           [&] { round_trips<How>(state, device, duration); });
                                 })
        ->UseManualTime()
        ->Iterations(options.quick ? 20 : 1000)
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RegisterBenchmark(
      (std::string(How::kName) + "/idle").c_str(),
      [device](benchmark::State& state) { guarded(state, [&] { idle<How>(state, device); }); })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

void add(const leat::gpu::Device& device, const Options& options) {
  add_way<Sync>(device, options);
  add_way<Await>(device, options);
  add_way<OnDone>(device, options);
}

}  // namespace

int main(int argc, char** argv) { return run_on_device(argc, argv, &add); }
