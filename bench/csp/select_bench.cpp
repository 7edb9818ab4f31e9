// What a select costs: over 2 and 8 channels with a sender each, by one fiber with itself, and with
// an otherwise that is taken.
//
// The names are those of Go's runtime/chan_test.go where it has the problem; the last argument is
// the number of workers. An operation is one select; in SelectNonblock it is four, as in Go.

#include "leat/csp/select.h"

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "bench/csp/measure.h"
#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"

namespace {

using bench::check;
using bench::measure;
using leat::Channel;
using leat::on_recv;
using leat::on_send;
using leat::otherwise;

template <std::size_t... kWay>
void select_of(benchmark::State& state, std::index_sequence<kWay...> /*ways*/) {
  constexpr std::size_t kWays = sizeof...(kWay);
  measure(state, state.range(1), [&](std::int64_t n) {
    const std::int64_t each = (n + std::int64_t{kWays} - 1) / std::int64_t{kWays};
    n = each * std::int64_t{kWays};
    std::array<Channel<std::uint64_t>, kWays> channels;
    for (auto& channel : channels) channel = Channel<std::uint64_t>(state.range(0), "values");
    std::array<bench::InOrder, kWays> received;
    leat::TaskGroup senders;
    while (state.KeepRunningBatch(n)) {
      for (const auto& channel : channels) {
        senders.go([=] {
          for (std::int64_t i = 0; i < each; ++i) {
            channel.send(static_cast<std::uint64_t>(i));
          }
        });
      }
      for (std::int64_t i = 0; i < n; ++i) {
        leat::select(on_recv(channels[kWay], [&](std::optional<std::uint64_t> value) {
          received[kWay].add(value.value());
        })...);
      }
    }
    senders.wait();
    for (const auto& one : received) check(state, one.are(each));
  });
}

/// Receives from 2 channels, each with a sender. Argument: the capacity.
void select_of_2(benchmark::State& state) { select_of(state, std::make_index_sequence<2>()); }
BENCHMARK(select_of_2)
    ->Name("Select2")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{0, 128}, {1, 2}})
    ->UseRealTime();

void select_of_8(benchmark::State& state) { select_of(state, std::make_index_sequence<8>()); }
BENCHMARK(select_of_8)
    ->Name("Select8")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{0, 128}, {1, 2}})
    ->UseRealTime();

/// A fiber moves a value between two channels of capacity 1, of which always one has it.
void select_uncontended(benchmark::State& state) {
  measure(state, state.range(0), [&](std::int64_t n) {
    const Channel<std::uint64_t> a(1, "a");
    const Channel<std::uint64_t> b(1, "b");
    std::uint64_t last = 0;
    while (state.KeepRunningBatch(n)) {
      a.send(0);
      for (std::int64_t i = 0; i < n; ++i) {
        leat::select(
            on_recv(a, [&](std::optional<std::uint64_t> value) { b.send(value.value() + 1); }),
            on_recv(b, [&](std::optional<std::uint64_t> value) { a.send(value.value() + 1); }));
      }
      last = (n % 2 == 0 ? a : b).recv().value();
    }
    check(state, last == static_cast<std::uint64_t>(n));
  });
}
BENCHMARK(select_uncontended)->Name("SelectUncontended")->Apply(bench::one_and_two_workers);

/// Four selects with one case and otherwise: a receive and a send without a peer, a receive and a
/// send on a channel of capacity 1 (which the send finds empty once only).
void select_nonblock(benchmark::State& state) {
  measure(state, state.range(0), [&](std::int64_t n) {
    const Channel<std::uint64_t> no_sender(0, "no sender");
    const Channel<std::uint64_t> no_receiver(0, "no receiver");
    const Channel<std::uint64_t> empty(1, "empty");
    const Channel<std::uint64_t> full(1, "full");
    std::int64_t taken = 0;  // otherwise, of the four
    const auto count = [&] { ++taken; };
    while (state.KeepRunningBatch(n)) {
      for (std::int64_t i = 0; i < n; ++i) {
        leat::select(on_recv(no_sender), otherwise(count));
        leat::select(on_send(no_receiver, 0), otherwise(count));
        leat::select(on_recv(empty), otherwise(count));
        leat::select(on_send(full, 0), otherwise(count));
      }
    }
    check(state, taken == 4 * n - 1);
  });
}
BENCHMARK(select_nonblock)->Name("SelectNonblock")->Apply(bench::one_and_two_workers);

}  // namespace
