// Double buffering: two fibers, two buffers between them, a memcpy in and a memcpy out.
//
// Arguments: KiB of a buffer; pairs of fibers at once; workers. An operation is one buffer of one
// pair. With two workers the two memcpy overlap, if the runtime lets them.

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "bench/csp/measure.h"
#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"

namespace {

using bench::measure;
using leat::Channel;
using Buffer = std::vector<std::uint64_t>;

struct Pair {
  explicit Pair(std::size_t bytes)
      : source(bytes / sizeof(std::uint64_t), 1), target(bytes / sizeof(std::uint64_t), 2) {
    for (int i = 0; i < 2; ++i) empty.send(Buffer(source.size(), 3));
  }

  Buffer source;
  Buffer target;
  Channel<Buffer> full{2, "full"};
  Channel<Buffer> empty{2, "empty"};
  bench::InOrder firsts;
  bench::InOrder lasts;
};

void copy(Buffer& to, const Buffer& from) {
  std::memcpy(to.data(), from.data(), from.size() * sizeof(std::uint64_t));
  benchmark::ClobberMemory();
}

void double_buffer(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0)) << 10;
  const std::int64_t count = state.range(1);
  measure(state, state.range(2), [&](std::int64_t n) {
    const std::int64_t each = (n + count - 1) / count;
    std::vector<std::unique_ptr<Pair>> pairs;
    for (std::int64_t i = 0; i < count; ++i) pairs.push_back(std::make_unique<Pair>(bytes));
    leat::TaskGroup group;
    while (state.KeepRunningBatch(each * count)) {
      for (const auto& owner : pairs) {
        Pair& pair = *owner;
        group.go([&pair, each] {
          for (std::int64_t i = 0; i < each; ++i) {
            Buffer buffer = pair.empty.recv().value();
            pair.source.front() = pair.source.back() = static_cast<std::uint64_t>(i);
            copy(buffer, pair.source);
            pair.full.send(std::move(buffer));
          }
          pair.full.close();
        });
        group.go([&pair] {
          for (Buffer& buffer : pair.full) {
            copy(pair.target, buffer);
            pair.firsts.add(pair.target.front());
            pair.lasts.add(pair.target.back());
            pair.empty.send(std::move(buffer));
          }
        });
      }
      group.wait();
    }
    for (const auto& pair : pairs) {
      bench::check(state, pair->firsts.are(each) && pair->lasts.are(each));
    }
  });
}
BENCHMARK(double_buffer)
    ->Name("DoubleBuffer")
    ->ArgNames({"", "", "workers"})
    ->ArgsProduct({{64, 256, 1024, 4096, 16384}, {1, 4}, {1, 2}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

}  // namespace
