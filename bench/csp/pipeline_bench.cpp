// Programs of many fibers: a ring, a sieve, a pipeline, circulating buffers, a pool of workers.
//
// The last argument is the number of workers.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "bench/csp/measure.h"
#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"

namespace {

using bench::check;
using bench::measure;
using leat::Channel;

/// A token goes round a ring of fibers with unbuffered channels. An operation is one hop. If
/// `shuffled`, the order of the ring is not the one in which its channels and fibers were made.
void ring(benchmark::State& state, bool shuffled) {
  const std::int64_t fibers = state.range(0);
  measure(state, state.range(1), [&](std::int64_t n) {
    n = bench::round_up(n, fibers);
    std::vector<Channel<std::uint64_t>> links;
    for (std::int64_t i = 0; i < fibers; ++i) links.emplace_back(0, "link");
    std::vector<std::size_t> launches(links.size() - 1);
    std::iota(launches.begin(), launches.end(), std::size_t{0});
    if (shuffled) {
      std::mt19937 random(1);
      std::shuffle(links.begin(), links.end(), random);
      std::shuffle(launches.begin(), launches.end(), random);
    }
    leat::TaskGroup group;
    std::uint64_t token = 0;
    while (state.KeepRunningBatch(n)) {
      for (const std::size_t i : launches) {
        group.go([in = links[i], out = links[i + 1]] {
          for (std::uint64_t& value : in) out.send(value + 1);
          out.close();
        });
      }
      for (std::int64_t i = 0; i < n; i += fibers) {
        links.front().send(token + 1);
        token = links.back().recv().value();
      }
    }
    links.front().close();
    group.wait();
    check(state, token == static_cast<std::uint64_t>(n));
  });
}
BENCHMARK_CAPTURE(ring, in_order, false)
    ->Name("Ring")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{10, 1000}, {1, 2}})
    ->UseRealTime();
BENCHMARK_CAPTURE(ring, shuffled, true)
    ->Name("RingShuffled")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{1000}, {1, 2}})
    ->UseRealTime();

/// The first so many primes, each found by, and then filtered out in, a fiber of its own. An
/// operation is all of them.
void sieve(benchmark::State& state) {
  measure(state, state.range(1), [&](std::int64_t n) {
    std::uint64_t prime = 0;
    while (state.KeepRunningBatch(n)) {
      for (std::int64_t i = 0; i < n; ++i) {
        leat::TaskGroup group;
        Channel<std::uint64_t> in(0, "candidates");
        group.go([out = in] {
          for (std::uint64_t candidate = 2;; ++candidate) out.send(candidate);
        });
        for (std::int64_t k = 0; k < state.range(0); ++k) {
          prime = in.recv().value();
          Channel<std::uint64_t> next(0, "candidates");
          group.go([in, out = next, prime] {
            for (;;) {
              const std::uint64_t candidate = in.recv().value();
              if (candidate % prime != 0) out.send(candidate);
            }
          });
          in = std::move(next);
        }
        group.stop();
      }
    }
    check(state, prime == (state.range(0) == 500 ? 3571 : 17389));
  });
}
BENCHMARK(sieve)
    ->Name("Sieve")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{500, 2000}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

struct Item {
  std::array<std::uint64_t, 8> words;  // 64 bytes
};

/// Items of 64 bytes go from one fiber to another through a channel of capacity 128. Each word is
/// written and read. An operation is one item.
void pipe(benchmark::State& state) {
  measure(state, state.range(0), [&](std::int64_t n) {
    const Channel<Item> items(128, "items");
    leat::TaskGroup sender;
    std::uint64_t sum = 0;
    while (state.KeepRunningBatch(n)) {
      sender.go([=] {
        for (std::int64_t i = 0; i < n; ++i) {
          Item item;
          item.words.fill(static_cast<std::uint64_t>(i));
          benchmark::DoNotOptimize(item);
          items.send(item);
        }
        items.close();
      });
      for (Item& item : items) {
        benchmark::DoNotOptimize(item);
        for (const std::uint64_t word : item.words) sum += word;
      }
    }
    sender.wait();
    check(state, sum == 8 * bench::sum_below(n));
  });
}
BENCHMARK(pipe)->Name("Pipe64")->ArgName("workers")->Arg(1)->Arg(2)->UseRealTime();

/// Items of 64 bytes pass four stages (a source, two that add 1 to every word, a sink) and the
/// three channels of capacity 128 between them. An operation is one item.
void pipeline(benchmark::State& state) {
  measure(state, state.range(0), [&](std::int64_t n) {
    std::array<Channel<Item>, 3> channels;
    for (auto& channel : channels) channel = Channel<Item>(128, "items");
    leat::TaskGroup stages;
    bench::InOrder firsts;
    bench::InOrder lasts;
    while (state.KeepRunningBatch(n)) {
      stages.go([n, out = channels[0]] {
        for (std::int64_t i = 0; i < n; ++i) {
          Item item;
          item.words.fill(static_cast<std::uint64_t>(i));
          out.send(item);
        }
        out.close();
      });
      for (std::size_t stage = 0; stage < 2; ++stage) {
        stages.go([in = channels[stage], out = channels[stage + 1]] {
          for (Item& item : in) {
            for (std::uint64_t& word : item.words) ++word;
            out.send(item);
          }
          out.close();
        });
      }
      for (Item& item : channels[2]) {
        benchmark::DoNotOptimize(item);
        firsts.add(item.words.front() - 2);
        lasts.add(item.words.back() - 2);
      }
    }
    stages.wait();
    check(state, firsts.are(n) && lasts.are(n));
  });
}
BENCHMARK(pipeline)->Name("Pipeline4")->ArgName("workers")->Arg(1)->Arg(2)->UseRealTime();

/// Four buffers of 1 MiB go to a consumer and come back through a second channel. Not one byte of
/// them is copied; each time the first and the last word are written and checked. An operation is
/// one buffer.
void circulate(benchmark::State& state) {
  using Buffer = std::vector<std::uint64_t>;
  measure(state, state.range(0), [&](std::int64_t n) {
    const Channel<Buffer> full(4, "full");
    const Channel<Buffer> empty(4, "empty");
    for (int i = 0; i < 4; ++i) empty.send(Buffer((1 << 20) / sizeof(std::uint64_t), 1));
    leat::TaskGroup producer;
    bench::InOrder firsts;
    bench::InOrder lasts;
    while (state.KeepRunningBatch(n)) {
      producer.go([=] {
        for (std::int64_t i = 0; i < n; ++i) {
          Buffer buffer = empty.recv().value();
          buffer.front() = buffer.back() = static_cast<std::uint64_t>(i);
          full.send(std::move(buffer));
        }
        full.close();
      });
      for (Buffer& buffer : full) {
        firsts.add(buffer.front());
        lasts.add(buffer.back());
        empty.send(std::move(buffer));
      }
    }
    producer.wait();
    check(state, firsts.are(n) && lasts.are(n));
  });
}
BENCHMARK(circulate)->Name("Circulate1MiB")->ArgName("workers")->Arg(1)->Arg(2)->UseRealTime();

/// Every step needs the one before it: no compiler makes it shorter.
std::uint64_t compute(std::uint64_t x, std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  return x;
}

/// Jobs of 1, 17, 100 us of arithmetic (at 1.7 ns a step) for four fibers, through channels of 16.
/// An operation is one job.
void coarse_jobs(benchmark::State& state) {
  const std::int64_t steps = state.range(0) * 600;
  measure(state, state.range(1), [&](std::int64_t n) {
    const Channel<std::uint64_t> jobs(16, "jobs");
    const Channel<std::uint64_t> results(16, "results");
    leat::TaskGroup group;
    std::uint64_t sum = 0;
    while (state.KeepRunningBatch(n)) {
      for (int i = 0; i < 4; ++i) {
        group.go([=] {
          for (std::uint64_t& job : jobs) results.send(compute(job, steps));
        });
      }
      group.go([=] {
        for (std::int64_t i = 0; i < n; ++i) jobs.send(static_cast<std::uint64_t>(i % 4 + 1));
        jobs.close();
      });
      for (std::int64_t i = 0; i < n; ++i) sum += results.recv().value();
    }
    group.wait();
    std::uint64_t expected = 0;
    for (std::int64_t i = 0; i < 4; ++i) {
      expected += static_cast<std::uint64_t>((n - i + 3) / 4) *
                  compute(static_cast<std::uint64_t>(i + 1), steps);
    }
    check(state, sum == expected);
  });
}
BENCHMARK(coarse_jobs)
    ->Name("CoarseJobs")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{1, 17, 100}, {1, 2}})
    ->UseRealTime();

}  // namespace
