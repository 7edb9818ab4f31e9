// What operations allocate on the heap: nothing, once they are warm. A program of its own, because
// it replaces the global operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/comm/parameter_server.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/comm/support/layers.h"
#include "tests/support/counting_new.h"

namespace leat::comm {
namespace allocations_test {

using leat::support::allocations_of;

constexpr int kTimes = 100;
constexpr int kRounds = 11;  // of allocations_of

/// What both of two ranks do kTimes, rank 1 on a fiber of its own, allocates nothing. `end` is
/// called before the ranks' world ends.
void expect_none(
    const std::function<void(Communicator& me)>& step, const std::function<void()>& end = [] {}) {
  for (const int workers : {1, 2}) {
    run(
        [&] {
          std::vector<Communicator> ranks = open("local:2");
          TaskGroup group;
          group.go([&] {
            for (int i = 0; i < kRounds * kTimes; ++i) step(ranks[1]);
          });
          EXPECT_EQ(allocations_of([&] {
                      for (int i = 0; i < kTimes; ++i) step(ranks[0]);
                    }),
                    0U);
          group.wait();
          end();
        },
        {.workers = workers});
  }
}

/// Each rank's memory.
struct Data {
  std::vector<float>& of(const Communicator& me) {
    return ranks[static_cast<std::size_t>(me.rank())];
  }
  std::vector<float> ranks[2];
};

TEST(CommAllocations, AreCounted) {
  EXPECT_GT(allocations_of([] { static_cast<void>(open("local:2")); }), 0U);
}

TEST(CommAllocations, OfCollectives) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{100'000}}) {
    Data data{{std::vector<float>(count), std::vector<float>(count)}};
    Data chunks{{std::vector<float>(count / 2), std::vector<float>(count - count / 2)}};
    expect_none([&](Communicator& me) {
      me.all_reduce(data.of(me)).await();
      me.reduce_scatter(data.of(me), chunks.of(me)).await();
      me.all_gather(chunks.of(me), data.of(me)).await();
      me.broadcast(data.of(me), 1).await();
      me.barrier().await();
    });
  }
}

TEST(CommAllocations, OfSeveralOperationsAtOnce) {
  Data data{{std::vector<float>(9), std::vector<float>(9)}};
  Data more{{std::vector<float>(9), std::vector<float>(9)}};
  expect_none([&](Communicator& me) {
    Completion sum = me.all_reduce(data.of(me));
    Completion barrier = me.barrier();
    Completion maximum = me.all_reduce(more.of(me), Reduction::kMax);
    static_cast<void>(select(on_done(sum), on_done(barrier)));
    maximum.await();
  });
}

TEST(CommAllocations, OfMessages) {
  Data out{{std::vector<float>(9), std::vector<float>(9)}};
  Data in{{std::vector<float>(9), std::vector<float>(9)}};
  expect_none([&](Communicator& me) {
    const int peer = 1 - me.rank();
    Completion received = me.recv(in.of(me), peer, 5);
    Completion sent = me.send(out.of(me), peer, 5);
    received.await();
    sent.await();
  });
}

/// A rank's exchange of two gradients, the first in ten pieces.
struct Training {
  Training(const Communicator& me, Policy policy, std::size_t elements = 1'000)
      : rank(me.rank()),
        first(elements),
        second(10),
        exchange(me, {{"a", span(first)}, {"b", span(second)}},
                 {.policy = policy,
                  .partition_bytes = elements * sizeof(float) / 10,
                  .credit_bytes = elements * sizeof(float) / 4}) {}
  static gpu::DeviceSpan span(std::vector<float>& data) {
    return {data.data(), data.size() * sizeof(float)};
  }
  void step() {
    exchange.begin_step(1);
    exchange.ready(1);
    if (rank == 0) exchange.ready(0);
    exchange.end_backward();
    exchange.await_all();
  }
  int rank;
  std::vector<float> first;
  std::vector<float> second;
  GradientExchange exchange;
};

// However the threads' timing has it: of so many ranks one is often late to see what another has
// ended.
TEST(CommAllocations, OfAnExchangeEndWithIt) {
  run([] {
    const std::vector<Communicator> ranks = open("local:3");
    const auto train = [&](int times) {
      TaskGroup group;
      for (const Communicator& me : ranks) {
        group.go([&me, times] {
          for (int i = 0; i < times; ++i) Training(me, Policy::kPriority).step();
        });
      }
      group.wait();
    };
    const auto in_use = [] {
      return leat::support::g_allocations.load() - leat::support::g_frees.load();
    };
    train(kTimes);  // a flight recorder keeps the last communicators
    const std::size_t before = in_use();
    train(kTimes);
    // Fewer than one for each.
    EXPECT_LT(in_use(), before + kTimes);
  });
}

TEST(CommAllocations, OfExchangesAreNoneInAnyStepAfterWarmUp) {
  constexpr int kRanks = 4;
  std::size_t total = 0;
  for (int i = 0; i < 12; ++i) {
    std::atomic<int> warm = 0;
    std::atomic<int> done = 0;
    std::atomic<std::size_t> before = 0;
    std::atomic<std::size_t> after = 0;
    std::vector<Communicator> ranks = open("local:" + std::to_string(kRanks), {.threads = 2});
    std::vector<std::jthread> threads;
    for (const Communicator& me : ranks) {
      threads.emplace_back([&] {
        Training training(me, static_cast<Policy>(i % 3), i % 2 == 0 ? 1'000 : 100'000);
        for (int n = 0; n < kTimes; ++n) training.step();  // until the workers have started, too
        if (++warm == kRanks) before = leat::support::g_allocations.load();
        for (int n = 0; n < 3 * kTimes; ++n) training.step();
        if (++done == 1) after = leat::support::g_allocations.load();
        me.barrier().await();
      });
    }
    threads.clear();
    total += after - before;
  }
  // What comes once in a process, from a thread that starts late say, is not an exchange's. Pools
  // that grow by the ranks' timing made 20 and more.
  EXPECT_LE(total, 2U);
}

TEST(CommAllocations, OfExchanges) {
  for (const Policy policy : {Policy::kFifo, Policy::kPriority, Policy::kBucketed}) {
    std::unique_ptr<Training> trainings[2];
    const auto step = [&](Communicator& me) {
      std::unique_ptr<Training>& training = trainings[static_cast<std::size_t>(me.rank())];
      if (training == nullptr) training = std::make_unique<Training>(me, policy);
      training->step();
    };
    expect_none(step, [&] {
      for (auto& one : trainings) one.reset();
    });
  }
}

/// A rank that trains two layers, the first in ten pieces, and serves beside.
struct Serving {
  Serving(const Communicator& me, bool synchronous, Policy policy)
      : is_synchronous(synchronous),
        server(me, layers.parameters(),
               {.servers = {0, 1},
                .workers = {0, 1},
                .synchronous = synchronous,
                .optimizer = Adam{},
                .policy = policy,
                .partition_bytes = 400,
                .credit_bytes = 1'000}) {}
  void step() {
    server.begin_step(1);
    Completion sent_second = server.send_vars(1);
    Completion second = server.fetch_vars(1);
    Completion sent_first = server.send_vars(0);
    Completion first = server.fetch_vars(0);
    if (is_synchronous) server.send_barrier().await();
    server.fetch_barrier().await();
    first.await();
    second.await();
    sent_first.await();
    sent_second.await();
  }
  bool is_synchronous;
  support::Layers layers{{1'000, 10}};
  ParameterServer server;
};

TEST(CommAllocations, OfParameterServers) {
  for (const bool synchronous : {true, false}) {
    for (const Policy policy : {Policy::kFifo, Policy::kPriority}) {
      std::unique_ptr<Serving> ranks[2];
      const auto step = [&](Communicator& me) {
        std::unique_ptr<Serving>& one = ranks[static_cast<std::size_t>(me.rank())];
        if (one == nullptr) one = std::make_unique<Serving>(me, synchronous, policy);
        one->step();
      };
      expect_none(step, [&] {
        for (auto& one : ranks) one.reset();
      });
    }
  }
}

}  // namespace allocations_test
}  // namespace leat::comm
