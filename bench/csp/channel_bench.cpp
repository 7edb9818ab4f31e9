// What an operation on a channel costs: a round trip, a stream through a buffer, many to many, one
// fiber with itself, a poll that finds nothing, large items, a plain thread on one end.
//
// The names are those of Go's runtime/chan_test.go where it has the problem; the last argument is
// the number of workers. An operation is one value, in ChanSync one there and one back. Read the
// figures as ratios, taken in one run: ./run bench csp/channel --benchmark_repetitions=9
// --benchmark_enable_random_interleaving=true, or ./run bench csp for ratios to others.

#include "leat/csp/channel.h"

#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>

#include "bench/csp/measure.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/csp/wait/futex.h"

namespace {

using bench::check;
using bench::measure;
using leat::Channel;

/// Two fibers hand a number back and forth.
void chan_sync(benchmark::State& state) {
  measure(state, state.range(0), [&](std::int64_t n) {
    const Channel<std::uint64_t> table(0, "table");
    leat::TaskGroup other;
    std::uint64_t value = 0;
    while (state.KeepRunningBatch(n)) {
      other.go([=] {
        for (std::int64_t i = 0; i < n; ++i) table.send(table.recv().value() + 1);
      });
      for (std::int64_t i = 0; i < n; ++i) {
        table.send(value);
        value = table.recv().value();
      }
    }
    other.wait();
    check(state, value == static_cast<std::uint64_t>(n));
  });
}
BENCHMARK(chan_sync)->Name("ChanSync")->ArgName("workers")->Arg(1)->Arg(2)->UseRealTime();

/// One sender, one receiver. Argument: the capacity.
void spsc(benchmark::State& state) {
  measure(state, state.range(1), [&](std::int64_t n) {
    const Channel<std::uint64_t> values(state.range(0), "values");
    leat::TaskGroup sender;
    bench::InOrder received;
    while (state.KeepRunningBatch(n)) {
      sender.go([=] {
        for (std::int64_t i = 0; i < n; ++i) values.send(static_cast<std::uint64_t>(i));
        values.close();
      });
      for (std::uint64_t& value : values) received.add(value);
    }
    sender.wait();
    check(state, received.are(n));
  });
}
BENCHMARK(spsc)
    ->Name("Spsc")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{1, 16, 128, 1024}, {1, 2}})
    ->UseRealTime();

/// `pairs` senders and as many receivers share a channel.
void many_to_many(benchmark::State& state, std::int64_t pairs, std::int64_t capacity,
                  std::int64_t workers) {
  measure(state, workers, [&](std::int64_t n) {
    const Channel<std::uint64_t> values(capacity, "values");
    leat::TaskGroup senders;
    leat::TaskGroup receivers;
    std::atomic<std::uint64_t> sum{0};
    std::atomic<std::int64_t> count{0};
    while (state.KeepRunningBatch(n)) {
      for (std::int64_t s = 0; s < pairs; ++s) {
        senders.go([=] {
          for (std::int64_t i = s; i < n; i += pairs) values.send(static_cast<std::uint64_t>(i));
        });
        receivers.go([&sum, &count, values] {
          std::uint64_t my_sum = 0;
          std::int64_t my_count = 0;
          for (std::uint64_t& value : values) {
            my_sum += value;
            ++my_count;
          }
          sum += my_sum;
          count += my_count;
        });
      }
      senders.wait();
      values.close();
      receivers.wait();
    }
    check(state, sum == bench::sum_below(n) && count == n);
  });
}

void mpmc(benchmark::State& state) { many_to_many(state, 4, state.range(0), state.range(1)); }
BENCHMARK(mpmc)
    ->Name("Mpmc")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{128}, {1, 2}})
    ->UseRealTime();

/// As many senders and receivers as workers.
void chan_prod_cons(benchmark::State& state) {
  many_to_many(state, state.range(1), state.range(0), state.range(1));
}
BENCHMARK(chan_prod_cons)
    ->Name("ChanProdCons")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{0, 10, 100}, {1, 2}})
    ->UseRealTime();

/// A fiber sends 100 values and receives them itself.
void chan_uncontended(benchmark::State& state) {
  constexpr std::int64_t kCapacity = 100;
  measure(state, state.range(0), [&](std::int64_t n) {
    n = bench::round_up(n, kCapacity);
    const Channel<std::uint64_t> values(kCapacity, "values");
    bench::InOrder received;
    while (state.KeepRunningBatch(n)) {
      for (std::int64_t i = 0; i < n; i += kCapacity) {
        for (std::int64_t j = i; j < i + kCapacity; ++j) {
          values.send(static_cast<std::uint64_t>(j));
        }
        for (std::int64_t j = 0; j < kCapacity; ++j) received.add(values.recv().value());
      }
    }
    check(state, received.are(n));
  });
}
BENCHMARK(chan_uncontended)
    ->Name("ChanUncontended")
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime();

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
BENCHMARK(chan_nonblocking)
    ->Name("ChanNonblocking")
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime();

struct Page {
  std::array<std::uint64_t, 512> words;  // 4 KiB; the first and the last are the page's number
};

/// Items of 4 KiB, by value: each is copied into the channel, and out of it. Capacity 16.
void items_of_4_kib(benchmark::State& state) {
  measure(state, state.range(0), [&](std::int64_t n) {
    const Channel<Page> pages(16, "pages");
    leat::TaskGroup sender;
    bench::InOrder firsts;
    bench::InOrder lasts;
    while (state.KeepRunningBatch(n)) {
      sender.go([=] {
        Page page{};
        for (std::int64_t i = 0; i < n; ++i) {
          page.words.front() = page.words.back() = static_cast<std::uint64_t>(i);
          benchmark::DoNotOptimize(page);
          pages.send(page);
        }
        pages.close();
      });
      for (Page& page : pages) {
        benchmark::DoNotOptimize(page);
        firsts.add(page.words.front());
        lasts.add(page.words.back());
      }
    }
    sender.wait();
    check(state, firsts.are(n) && lasts.are(n));
  });
}
BENCHMARK(items_of_4_kib)->Name("Items4KiB")->ArgName("workers")->Arg(1)->Arg(2)->UseRealTime();

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
BENCHMARK(thread_to_fiber)
    ->Name("ThreadToFiber")
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime();

/// The same beside a thread that computes all the time. Where the machine has but two CPUs, the two
/// that hand values over, or one of them and this one, have to share one.
void thread_to_fiber_busy(benchmark::State& state) {
  const std::jthread hog([](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
    }
  });
  thread_to_fiber(state);
}
BENCHMARK(thread_to_fiber_busy)
    ->Name("ThreadToFiberBusy")
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime();

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
BENCHMARK(thread_to_poller)
    ->Name("ThreadToPoller")
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime();

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
