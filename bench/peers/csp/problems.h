// The problems of bench/csp in C++, over what Leat (bench/csp/leat_peer.h) or a peer has for
// channels and fibers:
//
//   struct Peer {
//     template <class T> class Channel;   // explicit Channel(std::int64_t capacity);
//                                         // void send(const T& or T&&); T recv();
//                                         // void close(), begin(), end() where it can be closed
//     template <class T> class Stream;    // the same for one sender and one receiver
//     class Tasks;                        // void go(F); void wait(); the fibers, or threads
//     static void sleep_for(Duration);
//     static constexpr bool kFifo;        // among the values of different senders too
//   };
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "items.h"
#include "peer.h"

namespace peer {

template <class P>
Time chan_sync(std::int64_t n) {
  typename P::template Channel<std::uint64_t> table(0);
  typename P::Tasks other;
  std::uint64_t value = 0;
  const auto start = Clock::now();
  other.go([&] {
    for (std::int64_t i = 0; i < n; ++i) table.send(table.recv() + 1);
  });
  for (std::int64_t i = 0; i < n; ++i) {
    table.send(value);
    value = table.recv();
  }
  const auto elapsed = Clock::now() - start;
  other.wait();
  check(value == static_cast<std::uint64_t>(n));
  return {n, elapsed};
}

template <class P>
Time spsc(std::int64_t n, std::int64_t capacity) {
  typename P::template Stream<std::uint64_t> values(capacity);
  typename P::Tasks sender;
  InOrder received;
  const auto start = Clock::now();
  sender.go([&] { send_below(values, n); });
  receive(values, n, [&](std::uint64_t value) { received.add(value); });
  const auto elapsed = Clock::now() - start;
  sender.wait();
  check(received.are(n));
  return {n, elapsed};
}

/// Receivers take what comes until there is no more; where the last value might overtake others,
/// each takes its share.
template <class P>
Time many_to_many(std::int64_t n, std::int64_t pairs, std::int64_t capacity) {
  n = round_up(n, pairs);
  typename P::template Channel<std::uint64_t> values(capacity);
  typename P::Tasks senders;
  typename P::Tasks receivers;
  std::atomic<std::uint64_t> sum{0};
  std::atomic<std::int64_t> count{0};
  const auto start = Clock::now();
  for (std::int64_t s = 0; s < pairs; ++s) {
    senders.go([&, s] {
      for (std::int64_t i = s; i < n; i += pairs) values.send(static_cast<std::uint64_t>(i));
    });
    receivers.go([&] {
      std::uint64_t my_sum = 0;
      std::int64_t my_count = 0;
      const auto add = [&](std::uint64_t value) {
        my_sum += value;
        ++my_count;
      };
      if constexpr (P::kFifo) {
        drain(values, add);
      } else {
        receive(values, n / pairs, add);
      }
      sum += my_sum;
      count += my_count;
    });
  }
  senders.wait();
  if constexpr (P::kFifo) end_drains(values, pairs);
  receivers.wait();
  const auto elapsed = Clock::now() - start;
  check(sum == sum_below(n) && count == n);
  return {n, elapsed};
}

template <class P>
Time chan_uncontended(std::int64_t n) {
  constexpr std::int64_t kCapacity = 100;
  n = round_up(n, kCapacity);
  typename P::template Channel<std::uint64_t> values(kCapacity);
  InOrder received;
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < n; i += kCapacity) {
    for (std::int64_t j = i; j < i + kCapacity; ++j) values.send(static_cast<std::uint64_t>(j));
    for (std::int64_t j = 0; j < kCapacity; ++j) received.add(values.recv());
  }
  const auto elapsed = Clock::now() - start;
  check(received.are(n));
  return {n, elapsed};
}

template <class P>
Time chan_nonblocking(std::int64_t n) {
  typename P::template Channel<std::uint64_t> silent(1);
  std::uint64_t value = 0;
  std::int64_t empty = 0;
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < n; ++i) empty += silent.try_recv(value) ? 0 : 1;
  const auto elapsed = Clock::now() - start;
  check(empty == n);
  return {n, elapsed};
}

template <class P>
Time thread_to_fiber(std::int64_t n) {
  typename P::template Stream<std::uint64_t> values(128);
  InOrder received;
  const auto start = Clock::now();
  std::jthread sender([&] { send_below(values, n); });
  receive(values, n, [&](std::uint64_t value) { received.add(value); });
  const auto elapsed = Clock::now() - start;
  sender.join();
  check(received.are(n));
  return {n, elapsed};
}

template <class P>
Time spawn(std::int64_t n, std::int64_t at_once) {
  n = round_up(n, at_once);
  std::atomic<std::int64_t> ran{0};
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < n; i += at_once) {
    typename P::Tasks tasks;
    for (std::int64_t j = 0; j < at_once; ++j) {
      tasks.go([&] { ran.fetch_add(1, std::memory_order_relaxed); });
    }
    tasks.wait();
  }
  const auto elapsed = Clock::now() - start;
  check(ran == n);
  return {n, elapsed};
}

template <class P>
Time coarse_jobs(std::int64_t n, std::int64_t microseconds) {
  const std::int64_t steps = microseconds * 600;
  typename P::template Channel<std::uint64_t> jobs(16);
  typename P::template Channel<std::uint64_t> results(16);
  typename P::Tasks tasks;
  std::uint64_t sum = 0;
  const auto start = Clock::now();
  for (int i = 0; i < 4; ++i) {
    tasks.go([&] { drain(jobs, [&](std::uint64_t job) { results.send(compute(job, steps)); }); });
  }
  tasks.go([&] {
    for (std::int64_t i = 0; i < n; ++i) jobs.send(static_cast<std::uint64_t>(i % 4 + 1));
    end_drains(jobs, 4);
  });
  for (std::int64_t i = 0; i < n; ++i) sum += results.recv();
  const auto elapsed = Clock::now() - start;
  tasks.wait();
  check(sum == computed(n, steps));
  return {n, elapsed};
}

template <class P>
std::map<std::string, double> wake_while_hogging() {
  using namespace std::chrono_literals;
  constexpr std::size_t kWakes = 400;
  typename P::template Channel<Clock::time_point> sent(1);
  typename P::Tasks woken;
  std::vector<double> latencies;
  woken.go([&] {
    for (std::size_t i = 0; i < kWakes; ++i) {
      const Clock::time_point at = sent.recv();
      latencies.push_back(std::chrono::duration<double, std::nano>(Clock::now() - at).count());
    }
  });
  for (std::size_t i = 0; i < kWakes; ++i) {
    P::sleep_for(100us);
    sent.send(Clock::now());
    for (const auto end = Clock::now() + 500us; Clock::now() < end;) {
    }
  }
  woken.wait();
  std::sort(latencies.begin(), latencies.end());
  return {{"p50", latencies[kWakes / 2]}, {"p99", latencies[kWakes * 99 / 100]}};
}

/// What all with bounded channels have.
template <class P>
Problems shared_problems() {
  Problems all;
  auto& timed = all.timed;
  for (const std::int64_t capacity : {1, 16, 128, 1024}) {
    timed["Spsc/" + std::to_string(capacity)] = [=](std::int64_t n) {
      return spsc<P>(n, capacity);
    };
  }
  timed["Mpmc/128"] = [](std::int64_t n) { return many_to_many<P>(n, 4, 128); };
  timed["ChanUncontended"] = chan_uncontended<P>;
  timed["Items4KiB"] = items_of_4_kib<P>;
  timed["Pipe64"] = pipe<P>;
  timed["Pipeline4"] = pipeline<P>;
  timed["Circulate1MiB"] = circulate<P>;
  for (const std::int64_t microseconds : {1, 17, 100}) {
    timed["CoarseJobs/" + std::to_string(microseconds)] = [=](std::int64_t n) {
      return coarse_jobs<P>(n, microseconds);
    };
  }
  for (const std::int64_t kib : {64, 256, 1024, 4096, 16384}) {
    for (const std::int64_t pairs : {1, 4}) {
      timed["DoubleBuffer/" + std::to_string(kib) + "/" + std::to_string(pairs)] =
          [=](std::int64_t n) { return double_buffer<P>(n, kib, pairs); };
    }
  }
  all.counted["WakeWhileHogging"] = wake_while_hogging<P>;
  return all;
}

template <class P>
void add_spawn(Problems& all, std::initializer_list<std::int64_t> at_once) {
  for (const std::int64_t fibers : at_once) {
    all.timed["Spawn/" + std::to_string(fibers)] = [=](std::int64_t n) {
      return spawn<P>(n, fibers);
    };
  }
}

/// What every peer with bounded channels has. (Leat has these in a form of its own.)
template <class P>
Problems bounded_channel_problems() {
  Problems all = shared_problems<P>();
  all.timed["ChanNonblocking"] = chan_nonblocking<P>;
  all.timed["ThreadToFiber"] = thread_to_fiber<P>;
  return all;
}

}  // namespace peer
