// Go's test/chan/{goroutines,sieve1,doubleselect,zerosize}.go: what goes through chains of
// channels comes out once and in order. (Its fifo.go: channel_test.)
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace go_chan_order_test {

using support::rounds;
using support::run_each;
using support::until_idle;

constexpr int kFibers = rounds(10'000);
constexpr std::array kPrimes = {2,   3,   5,   7,   11,  13,  17,  19,  23,  29,  31,  37,
                                41,  43,  47,  53,  59,  61,  67,  71,  73,  79,  83,  89,
                                97,  101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151,
                                157, 163, 167, 173, 179, 181, 191, 193, 197, 199};

// Fibers are made faster than they end: all of them stand in the chain when the value enters it.
TEST(GoChanGoroutines, AValuePassesADaisyChainOf10000) {
  run_each([] {
    const Channel<int> leftmost(0);
    Channel<int> left = leftmost;
    for (int i = 0; i < kFibers; ++i) {
      const Channel<int> right(0);
      go([left, right] { left.send(1 + right.recv().value()); });
      left = right;
    }
    until_idle();
    left.send(0);
    EXPECT_EQ(leftmost.recv(), kFibers);
  });
}

TEST(GoChanSieve1, TheSieveFindsThePrimes) {
  run_each([] {
    Channel<int> numbers(0);
    go([numbers] {
      for (int i = 2;; ++i) numbers.send(i);
    });
    for (const int expected : kPrimes) {
      const int prime = numbers.recv().value();
      ASSERT_EQ(prime, expected);
      const Channel<int> filtered(0);
      go([=] {
        for (const int n : numbers) {
          if (n % prime != 0) filtered.send(n);
        }
      });
      numbers = filtered;
    }
  });
}

// Two cases of one select that both fire deliver a number twice; a lost wake-up loses one, or
// hangs.
TEST(GoChanDoubleSelect, ASelectThatSendsOnFourChannelsSendsOnce) {
  run_each([] {
    constexpr int kRounds = rounds(20'000);
    std::vector<Channel<int>> channels;
    for (int i = 0; i < 4; ++i) channels.emplace_back(0);
    Channel<int> merged(0);
    go([=] {
      for (int i = 0; i < kRounds; ++i) {
        select(on_send(channels[0], int{i}), on_send(channels[1], int{i}),
               on_send(channels[2], int{i}), on_send(channels[3], int{i}));
      }
      for (const Channel<int>& c : channels) c.close();
    });
    go([=] {
      TaskGroup forwarders;
      for (const Channel<int>& c : channels) {
        forwarders.go([c, merged] {
          for (const int value : c) merged.send(value);
        });
      }
      forwarders.wait();
      merged.close();
    });
    std::vector<int> seen(kRounds, 0);
    for (const int value : merged) ++seen.at(static_cast<std::size_t>(value));
    for (const int count : seen) ASSERT_EQ(count, 1);
  });
}

// An object takes a byte at least in C++; what must not matter is that it has no value.
TEST(GoChanZeroSize, EmptyTypesAreCounted) {
  struct Nothing {};
  run_each([] {
    for (const int capacity : {0, 1, 3, 1000}) {
      Channel<Nothing> c(capacity);
      for (int i = 0; i < capacity; ++i) EXPECT_EQ(c.try_send({}), ChannelStatus::ok);
      EXPECT_EQ(c.try_send({}), ChannelStatus::would_block);
      EXPECT_EQ(c.size(), static_cast<std::size_t>(capacity));
      go([=] {
        for (int i = 0; i < 10; ++i) c.send({});
        c.close();
      });
      int count = 0;
      while (c.recv().has_value()) ++count;
      EXPECT_EQ(count, capacity + 10);
    }
  });
}

}  // namespace go_chan_order_test
}  // namespace leat
