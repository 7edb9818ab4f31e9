// Programs of many fibers: a ring, a sieve, a pipeline, circulating buffers, a pool of workers.
//
// The last argument is the number of workers.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "bench/csp/leat_peer.h"
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

[[maybe_unused]] const bool kAdded =
    bench::add_problems({"Pipe64", "Pipeline4", "Circulate1MiB", "CoarseJobs/"});

}  // namespace
