// The problems of bench/csp in oneTBB: OS threads with concurrent_bounded_queue, and tasks where
// the library has them: task_group for spawn, parallel_pipeline for pipelines and pools.

#include <tbb/concurrent_queue.h>
#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "problems.h"
#include "threads.h"

namespace {

using peer::Clock;
using peer::Time;

struct Peer : peer::Threads {
  static constexpr bool kFifo = true;

  template <class T>
  class Channel {
   public:
    explicit Channel(std::int64_t capacity) { values_.set_capacity(capacity); }
    template <class V>
    void send(V&& value) {
      values_.push(std::forward<V>(value));
    }
    T recv() {
      T value;
      values_.pop(value);
      return value;
    }
    bool try_recv(T& value) { return values_.try_pop(value); }

   private:
    tbb::concurrent_bounded_queue<T> values_;
  };
  template <class T>
  using Stream = Channel<T>;
};

Time spawn(std::int64_t n, std::int64_t at_once) {
  n = peer::round_up(n, at_once);
  std::atomic<std::int64_t> ran{0};
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < n; i += at_once) {
    tbb::task_group group;
    for (std::int64_t j = 0; j < at_once; ++j) {
      group.run([&] { ran.fetch_add(1, std::memory_order_relaxed); });
    }
    group.wait();
  }
  const auto elapsed = Clock::now() - start;
  peer::check(ran == n);
  return {n, elapsed};
}

Time pipeline(std::int64_t n) {
  using peer::Item;
  constexpr auto kInOrder = tbb::filter_mode::serial_in_order;
  std::int64_t next = 0;
  peer::InOrder firsts;
  peer::InOrder lasts;
  const auto add = [](Item item) {
    for (std::uint64_t& word : item.words) ++word;
    return item;
  };
  const auto start = Clock::now();
  tbb::parallel_pipeline(
      128, tbb::make_filter<void, Item>(kInOrder,
                                        [&](tbb::flow_control& control) {
                                          Item item{};
                                          if (next == n) {
                                            control.stop();
                                          } else {
                                            item.words.fill(static_cast<std::uint64_t>(next++));
                                          }
                                          return item;
                                        }) &
               tbb::make_filter<Item, Item>(kInOrder, add) &
               tbb::make_filter<Item, Item>(kInOrder, add) &
               tbb::make_filter<Item, void>(kInOrder, [&](Item item) {
                 peer::opaque(item);
                 firsts.add(item.words.front() - 2);
                 lasts.add(item.words.back() - 2);
               }));
  const auto elapsed = Clock::now() - start;
  peer::check(firsts.are(n) && lasts.are(n));
  return {n, elapsed};
}

Time coarse_jobs(std::int64_t n, std::int64_t microseconds) {
  const std::int64_t steps = microseconds * 600;
  std::int64_t next = 0;
  std::uint64_t sum = 0;
  const auto start = Clock::now();
  tbb::parallel_pipeline(
      16, tbb::make_filter<void, std::uint64_t>(tbb::filter_mode::serial_in_order,
                                                [&](tbb::flow_control& control) {
                                                  if (next == n) control.stop();
                                                  return static_cast<std::uint64_t>(next++ % 4 + 1);
                                                }) &
              tbb::make_filter<std::uint64_t, std::uint64_t>(
                  tbb::filter_mode::parallel,
                  [&](std::uint64_t job) { return peer::compute(job, steps); }) &
              tbb::make_filter<std::uint64_t, void>(tbb::filter_mode::serial_out_of_order,
                                                    [&](std::uint64_t result) { sum += result; }));
  const auto elapsed = Clock::now() - start;
  peer::check(sum == peer::computed(n, steps));
  return {n, elapsed};
}

/// `problem` by `workers` threads of the library, of which the calling one is one.
template <class F>
peer::Problem in_arena(int workers, F problem) {
  return [=](std::int64_t n) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(workers));
    tbb::task_arena arena(workers);
    return arena.execute([&] { return problem(n); });
  };
}

peer::Problems problems(int workers) {
  peer::Problems all = peer::bounded_channel_problems<Peer>();
  for (const std::int64_t at_once : {256, 1'000, 1'000'000}) {
    all.timed["Spawn/" + std::to_string(at_once)] =
        in_arena(workers, [=](std::int64_t n) { return spawn(n, at_once); });
  }
  all.timed["Pipeline4"] = in_arena(workers, pipeline);
  for (const std::int64_t microseconds : {1, 17, 100}) {
    all.timed["CoarseJobs/" + std::to_string(microseconds)] =
        in_arena(workers, [=](std::int64_t n) { return coarse_jobs(n, microseconds); });
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) { return peer::main(argc, argv, problems); }
