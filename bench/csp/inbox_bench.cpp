// What an inbox costs: fibers and threads hand nodes to the one thread that serves them, as to the
// pool for blocking calls (csp/sched/io_pool.h) and to the poller of device events.
//
// inbox<Locked> is what both have: an intrusive list under a spin lock, in which a waiter that is
// cancelled finds its node and takes it out. The others are Boost.Lockfree's, with their memory
// allocated beforehand. alone: one thread pushes a node and takes it out again. Else `producers`
// threads push, each with at most 16 nodes on their way, and one thread takes. blocking is the
// whole operation that the pool's inbox is a part of. Times are of one node, or of one call.
//
//   bench_csp_inbox --benchmark_enable_random_interleaving=true
//                   --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>
#include <boost/lockfree/stack.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "bench/csp/measure.h"
#include "leat/csp/blocking.h"
#include "leat/csp/wait/futex.h"
#include "leat/csp/wait/spin_lock.h"

namespace {

struct Node {
  Node* next = nullptr;
  Node* previous = nullptr;
  alignas(64) std::atomic<bool> is_free{true};
};

class Locked {
 public:
  void push(Node* node) noexcept {
    const leat::SpinLockGuard guard(lock_);
    node->next = nullptr;
    node->previous = last_;
    (last_ != nullptr ? last_->next : first_) = node;
    last_ = node;
  }
  bool pop(Node*& node) noexcept {
    const leat::SpinLockGuard guard(lock_);
    node = first_;
    if (node == nullptr) return false;
    first_ = node->next;
    (first_ != nullptr ? first_->previous : last_) = nullptr;
    return true;
  }

 private:
  leat::SpinLock lock_;
  Node* first_ = nullptr;
  Node* last_ = nullptr;
};

constexpr std::size_t kWindow = 16;  // nodes of a producer on their way
constexpr std::size_t kRoom = 1024;
constexpr int kSpins = 1024;  // before a thread gives way

void wait(int& spins) {
  if (++spins % kSpins == 0) std::this_thread::yield();
  leat::cpu_relax();
}

using Queue = boost::lockfree::queue<Node*, boost::lockfree::capacity<kRoom>>;
using Stack = boost::lockfree::stack<Node*, boost::lockfree::capacity<kRoom>>;
using OneProducer = boost::lockfree::spsc_queue<Node*, boost::lockfree::capacity<kRoom>>;

template <class Inbox>
void alone(benchmark::State& state) {
  const auto inbox = std::make_unique<Inbox>();
  Node node;
  Node* taken = nullptr;
  for (auto _ : state) {
    inbox->push(&node);
    inbox->pop(taken);
  }
  bench::check(state, taken == &node && !inbox->pop(taken));
}

template <class Inbox>
void inbox(benchmark::State& state) {
  const auto inbox = std::make_unique<Inbox>();
  std::atomic<bool> ends{false};
  std::atomic<std::uint64_t> pushed{0};
  std::vector<std::thread> producers;
  for (std::int64_t p = 0; p < state.range(0); ++p) {
    producers.emplace_back([&] {
      std::array<Node, kWindow> nodes;
      std::uint64_t count = 0;
      while (!ends.load(std::memory_order_relaxed)) {
        Node& node = nodes[count % kWindow];
        for (int spins = 0; !node.is_free.load(std::memory_order_acquire);) {
          wait(spins);
        }
        node.is_free.store(false, std::memory_order_relaxed);
        inbox->push(&node);
        ++count;
      }
      pushed.fetch_add(count);
      for (const Node& node : nodes) {
        while (!node.is_free.load(std::memory_order_acquire)) std::this_thread::yield();
      }
    });
  }
  std::uint64_t taken = 0;
  const auto take = [&] {
    Node* node = nullptr;
    if (!inbox->pop(node)) return false;
    node->is_free.store(true, std::memory_order_release);
    ++taken;
    return true;
  };
  for (auto _ : state) {
    for (int spins = 0; !take();) {
      wait(spins);
    }
  }
  ends.store(true);
  // Each producer may still push one node.
  std::thread rest([&] {
    for (std::thread& thread : producers) thread.join();
    ends.store(false);
  });
  while (ends.load() || take()) take();
  rest.join();
  bench::check(state, taken == pushed.load());
}

void blocking(benchmark::State& state) {
  bench::measure(state, 1, [&](std::int64_t n) {
    std::int64_t called = 0;
    while (state.KeepRunningBatch(n)) {
      for (std::int64_t i = 0; i < n; ++i) leat::blocking([&] { ++called; });
    }
    bench::check(state, called == n);
  });
}

// Short and many, since other programs disturb most of a long run; "fast": of the fastest quarter.
void often(benchmark::internal::Benchmark* one) {
  one->UseRealTime()->Repetitions(31)->ComputeStatistics("fast",
                                                         [](const std::vector<double>& all) {
                                                           std::vector<double> sorted = all;
                                                           std::ranges::sort(sorted);
                                                           return sorted[sorted.size() / 4];
                                                         });
}
void short_runs(benchmark::internal::Benchmark* one) { often(one->Iterations(20'000)); }
void of_producers(benchmark::internal::Benchmark* one) {
  short_runs(one->ArgName("producers")->Arg(1)->Arg(2)->Arg(4));
}

BENCHMARK(alone<Locked>)->Apply(short_runs);
BENCHMARK(alone<Queue>)->Apply(short_runs);
BENCHMARK(alone<Stack>)->Apply(short_runs);
BENCHMARK(alone<OneProducer>)->Apply(short_runs);
BENCHMARK(inbox<Locked>)->Apply(of_producers);
BENCHMARK(inbox<Queue>)->Apply(of_producers);
BENCHMARK(inbox<Stack>)->Apply(of_producers);
BENCHMARK(inbox<OneProducer>)->ArgName("producers")->Arg(1)->Apply(short_runs);
BENCHMARK(blocking)->Iterations(200)->Apply(often);

}  // namespace
