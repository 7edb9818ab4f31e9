// Leat as one that solves the problems of bench/peers/csp, which its peers solve by the same code.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "bench/csp/measure.h"
#include "bench/peers/csp/problems.h"
#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/task_group.h"

namespace bench {

/// What bench/peers/csp/problems.h asks for.
struct LeatPeer {
  static constexpr bool kFifo = true;

  template <class T>
  class Channel {
   public:
    explicit Channel(std::int64_t capacity) : values_(capacity, "values") {}
    template <class V>
    void send(V&& value) const {
      values_.send(std::forward<V>(value));
    }
    T recv() const { return values_.recv().value(); }
    void close() const { values_.close(); }
    [[nodiscard]] auto begin() const { return values_.begin(); }
    [[nodiscard]] auto end() const { return values_.end(); }

   private:
    leat::Channel<T> values_;
  };
  template <class T>
  using Stream = Channel<T>;
  using Tasks = leat::TaskGroup;

  static void sleep_for(leat::Duration length) { leat::sleep_for(length); }
};

/// Adds those of the problems whose names begin so, with one worker and with two. Returns true, for
/// a constant whose initialisation adds them.
inline bool add_problems(std::initializer_list<std::string_view> beginnings) {
  for (const int workers : {1, 2}) {
    peer::Problems all = peer::shared_problems<LeatPeer>();
    all.timed["ChanSync"] = peer::chan_sync<LeatPeer>;
    peer::add_spawn<LeatPeer>(all, {256, 1'000, 1'000'000});
    for (const auto& [name, problem] : all.timed) {
      for (const std::string_view beginning : beginnings) {
        if (!name.starts_with(beginning)) continue;
        benchmark::RegisterBenchmark((name + "/workers:" + std::to_string(workers)).c_str(),
                                     [workers, problem = problem](benchmark::State& state) {
                                       measure(state, workers, [&](std::int64_t n) {
                                         const peer::Time time = problem(n);
                                         const std::chrono::duration<double> length = time.elapsed;
                                         while (state.KeepRunningBatch(time.n))
                                           state.SetIterationTime(length.count());
                                       });
                                     })
            ->UseManualTime();
      }
    }
  }
  return true;
}

}  // namespace bench
