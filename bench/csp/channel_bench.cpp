// What an operation on a channel costs: a round trip, a stream through a buffer, many to many, one
// fiber with itself, a poll that finds nothing, large items, a plain thread on one end.
//
// The names are those of Go's runtime/chan_test.go where it has the problem; the last argument is
// the number of workers. An operation is one value, in ChanSync one there and one back. Read the
// figures as ratios, taken in one run: ./run bench csp/channel --benchmark_repetitions=9
// --benchmark_enable_random_interleaving=true, or ./run bench csp for ratios to others.

#include "leat/csp/channel.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>
#include <thread>

#include "bench/csp/leat_peer.h"
#include "bench/csp/measure.h"
#include "leat/csp/base/futex.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"

namespace {

using bench::check;
using bench::measure;
using leat::Channel;

[[maybe_unused]] const bool kAdded =
    bench::add_problems({"ChanSync", "Spsc/", "Mpmc/", "ChanUncontended", "Items4KiB"});

/// Receives, without waiting, from a channel on which nobody sends.
void chan_nonblocking(benchmark::State& state) {
  measure(state, state.range(0), [&](std::int64_t n) {
    const Channel<std::uint64_t> silent(0, "silent");
    std::optional<std::uint64_t> value;
    std::int64_t empty = 0;
    while (state.KeepRunningBatch(n)) {
      for (std::int64_t i = 0; i < n; ++i) {
        empty += silent.try_recv(value) == leat::ChannelStatus::would_block ? 1 : 0;
      }
    }
    check(state, empty == n);
  });
}
BENCHMARK(chan_nonblocking)->Name("ChanNonblocking")->Apply(bench::one_and_two_workers);

constexpr std::int64_t kThreadsCapacity = 128;

/// A plain thread that sends n values and closes.
std::jthread sender_of(std::int64_t n, const Channel<std::uint64_t>& values) {
  return std::jthread([=] {
    for (std::int64_t i = 0; i < n; ++i) values.send(static_cast<std::uint64_t>(i));
    values.close();
  });
}

/// A plain thread sends to a fiber. Capacity 128.
void thread_to_fiber(benchmark::State& state) {
  measure(state, state.range(0), [&](std::int64_t n) {
    const leat::OutsideWork outside;
    const Channel<std::uint64_t> values(kThreadsCapacity, "values");
    bench::InOrder received;
    while (state.KeepRunningBatch(n)) {
      const std::jthread sender = sender_of(n, values);
      for (std::uint64_t& value : values) received.add(value);
    }
    check(state, received.are(n));
  });
}
BENCHMARK(thread_to_fiber)->Name("ThreadToFiber")->Apply(bench::one_and_two_workers);

/// The same beside a thread that computes all the time. Where the machine has but two CPUs, the two
/// that hand values over, or one of them and this one, have to share one.
void thread_to_fiber_busy(benchmark::State& state) {
  const std::jthread hog([](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
    }
  });
  thread_to_fiber(state);
}
BENCHMARK(thread_to_fiber_busy)->Name("ThreadToFiberBusy")->Apply(bench::one_and_two_workers);

/// The same to a fiber that never parks: it asks until there is a value. The difference is what
/// parking it and waking it from outside cost.
void thread_to_poller(benchmark::State& state) {
  measure(state, state.range(0), [&](std::int64_t n) {
    const leat::OutsideWork outside;
    const Channel<std::uint64_t> values(kThreadsCapacity, "values");
    bench::InOrder received;
    while (state.KeepRunningBatch(n)) {
      const std::jthread sender = sender_of(n, values);
      std::optional<std::uint64_t> value;
      for (;;) {
        const leat::ChannelStatus status = values.try_recv(value);
        if (status == leat::ChannelStatus::closed) break;
        if (status == leat::ChannelStatus::ok) {
          received.add(*value);
        } else {
          leat::cpu_relax();
        }
      }
    }
    check(state, received.are(n));
  });
}
BENCHMARK(thread_to_poller)->Name("ThreadToPoller")->Apply(bench::one_and_two_workers);

/// The same to a plain thread: no scheduler takes part.
void thread_to_thread(benchmark::State& state) {
  const auto n = static_cast<std::int64_t>(state.max_iterations);
  const Channel<std::uint64_t> values(kThreadsCapacity, "values");
  bench::InOrder received;
  while (state.KeepRunningBatch(n)) {
    const std::jthread sender = sender_of(n, values);
    for (std::uint64_t& value : values) received.add(value);
  }
  check(state, received.are(n));
}
BENCHMARK(thread_to_thread)->Name("ThreadToThread")->UseRealTime();

}  // namespace
