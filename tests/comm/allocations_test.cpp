// What operations allocate on the heap: nothing, once they are warm. A program of its own, because
// it replaces the global operator new.
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
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

TEST(CommAllocations, OfExchanges) {
  for (const Policy policy : {Policy::kFifo, Policy::kPriority, Policy::kBucketed}) {
    Data first{{std::vector<float>(1'000), std::vector<float>(1'000)}};
    Data second{{std::vector<float>(10), std::vector<float>(10)}};
    std::unique_ptr<GradientExchange> exchanges[2];
    const auto step = [&](Communicator& me) {
      const auto rank = static_cast<std::size_t>(me.rank());
      std::unique_ptr<GradientExchange>& exchange = exchanges[rank];
      if (exchange == nullptr) {
        const auto span = [](std::vector<float>& data) {
          return gpu::DeviceSpan(data.data(), data.size() * sizeof(float));
        };
        exchange = std::make_unique<GradientExchange>(
            me, std::vector<Gradient>{{"a", span(first.of(me))}, {"b", span(second.of(me))}},
            ExchangeOptions{.policy = policy, .partition_bytes = 400, .credit_bytes = 900});
      }
      exchange->begin_step(1);
      exchange->ready(1);
      if (rank == 0) exchange->ready(0);
      exchange->end_backward();
      exchange->await_all();
    };
    expect_none(step, [&] {
      for (auto& one : exchanges) one.reset();
    });
  }
}

}  // namespace allocations_test
}  // namespace leat::comm
