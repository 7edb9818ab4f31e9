// How long a fiber waits for a worker after it has been woken, if its waker keeps computing.
//
// Counters: p50 and p99 in nanoseconds, from before the wake-up to the woken's first instruction.
// Two workers, of which the other one sleeps. FutexWake is the same between two plain threads: what
// the machine itself takes, without which the other figure says nothing.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "bench/csp/leat_peer.h"
#include "bench/csp/measure.h"
#include "leat/csp/base/futex.h"
#include "leat/csp/clock.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kWakes = 400;
constexpr auto kHog = 500us;
constexpr auto kPause = 100us;  // then both workers sleep

std::int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

void wake_while_hogging(benchmark::State& state) {
  bench::measure(state, state.range(0), [&](std::int64_t /*n*/) {
    while (state.KeepRunning()) {
      for (const auto& [name, value] : peer::wake_while_hogging<bench::LeatPeer>()) {
        state.counters[name] = value;
      }
    }
  });
}
BENCHMARK(wake_while_hogging)
    ->Name("WakeWhileHogging")
    ->ArgName("workers")
    ->Arg(2)
    ->Iterations(1)
    ->UseRealTime();

/// One plain thread wakes another and computes.
void futex_wake(benchmark::State& state) {
  std::vector<std::int64_t> latencies;
  std::atomic<std::uint32_t> turn{0};
  std::atomic<std::int64_t> sent{0};
  std::jthread woken([&] {
    for (std::uint32_t seen = 0; seen < kWakes; ++seen) {
      while (turn.load() == seen) leat::futex_wait(turn, seen, leat::Deadline::never());
      latencies.push_back(nanoseconds() - sent.load());
    }
  });
  for (auto _ : state) {
    std::this_thread::sleep_for(kPause);
    sent = nanoseconds();
    ++turn;
    leat::futex_wake(&turn);
    for (const auto end = Clock::now() + kHog; Clock::now() < end;) leat::cpu_relax();
  }
  woken.join();
  bench::check(state, latencies.size() == kWakes);
  std::sort(latencies.begin(), latencies.end());
  state.counters["p50"] = static_cast<double>(latencies[latencies.size() / 2]);
  state.counters["p99"] = static_cast<double>(latencies[latencies.size() * 99 / 100]);
}
BENCHMARK(futex_wake)->Name("FutexWake")->Iterations(kWakes)->UseRealTime();

}  // namespace
