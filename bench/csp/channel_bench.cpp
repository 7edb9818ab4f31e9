// Channel operations on 1 and 2 workers: a round trip, a stream through a buffer, many to many, a
// select, a launch. Every benchmark checks what arrived and fails if it is wrong.
//
// The argument is the number of workers. Read the figures as ratios to each other, taken in one run
// with repetitions: ./run bench csp/channel --benchmark_repetitions=9
//                   --benchmark_enable_random_interleaving=true

#include "leat/csp/channel.h"

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"

namespace {

using leat::Channel;

leat::SchedulerOptions workers(const benchmark::State& state) {
  return {.workers = static_cast<int>(state.range(0))};
}

void check(benchmark::State& state, std::uint64_t found, std::uint64_t expected) {
  if (found != expected) state.SkipWithError("wrong result");
}

void round_trip(benchmark::State& state) {
  leat::run(
      [&] {
        const Channel<std::uint64_t> there(0, "there");
        const Channel<std::uint64_t> back(0, "back");
        leat::go([=] {
          for (std::uint64_t& value : there) back.send(value + 1);
          back.close();
        });
        std::uint64_t value = 0;
        std::uint64_t trips = 0;
        for (auto _ : state) {
          there.send(value);
          value = back.recv().value();
          ++trips;
        }
        check(state, value, trips);
        there.close();
        back.recv();
      },
      workers(state));
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(round_trip)->Arg(1)->Arg(2)->UseRealTime();

// One sender, one receiver; the second argument is the capacity.
void stream(benchmark::State& state) {
  leat::run(
      [&] {
        const Channel<std::uint64_t> values(state.range(1), "values");
        leat::TaskGroup sender;
        sender.go([=] {
          for (std::uint64_t i = 0;; ++i) values.send(i);  // until it is cancelled
        });
        std::uint64_t sum = 0;
        std::uint64_t count = 0;
        for (auto _ : state) {
          sum += values.recv().value();
          ++count;
        }
        check(state, sum, count * (count - 1) / 2);
        sender.stop();
      },
      workers(state));
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(stream)->ArgsProduct({{1, 2}, {1, 128}})->UseRealTime();

// Four senders and four receivers share a channel of 128; an iteration is 4,096 values.
void many_to_many(benchmark::State& state) {
  constexpr std::uint64_t kEach = 1024;
  leat::run(
      [&] {
        for (auto _ : state) {
          const Channel<std::uint64_t> values(128, "values");
          const Channel<std::uint64_t> sums(4, "sums");
          leat::TaskGroup senders;
          leat::TaskGroup receivers;
          for (std::uint64_t s = 0; s < 4; ++s) {
            senders.go([=] {
              for (std::uint64_t i = 0; i < kEach; ++i) values.send(4 * i + s);
            });
            receivers.go([=] {
              std::uint64_t sum = 0;
              for (std::uint64_t& value : values) sum += value;
              sums.send(sum);
            });
          }
          senders.wait();
          values.close();
          receivers.wait();
          std::uint64_t total = 0;
          for (int i = 0; i < 4; ++i) total += sums.recv().value();
          check(state, total, 4 * kEach * (4 * kEach - 1) / 2);
        }
      },
      workers(state));
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 4 *
                          static_cast<std::int64_t>(kEach));
}
BENCHMARK(many_to_many)->Arg(1)->Arg(2)->UseRealTime();

void select_of_two(benchmark::State& state) {
  leat::run(
      [&] {
        const Channel<std::uint64_t> a(128, "a");
        const Channel<std::uint64_t> b(128, "b");
        leat::TaskGroup senders;
        for (const auto& channel : {a, b}) {
          senders.go([=] {
            for (;;) channel.send(1);  // until it is cancelled
          });
        }
        std::uint64_t sum = 0;
        std::uint64_t count = 0;
        const auto add = [&](std::optional<std::uint64_t> value) { sum += value.value(); };
        for (auto _ : state) {
          leat::select(leat::on_recv(a, add), leat::on_recv(b, add));
          ++count;
        }
        check(state, sum, count);
        senders.stop();
      },
      workers(state));
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(select_of_two)->Arg(1)->Arg(2)->UseRealTime();

// Launching and joining 256 fibers.
void launch(benchmark::State& state) {
  constexpr int kFibers = 256;
  leat::run(
      [&] {
        for (auto _ : state) {
          std::atomic<int> ran{0};
          leat::TaskGroup group;
          for (int i = 0; i < kFibers; ++i) {
            group.go([&] { ran.fetch_add(1, std::memory_order_relaxed); });
          }
          group.wait();
          check(state, static_cast<std::uint64_t>(ran.load()), kFibers);
        }
      },
      workers(state));
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kFibers);
}
BENCHMARK(launch)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
