// Programs that every implementation of channels has to run: from the Go tour and Go's own tests.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/tests/support/run.h"

namespace leat {
namespace {

using support::rounds;
using support::run_each;

TEST(Classics, DaisyChain) {
  constexpr int kFibers = rounds(10'000);
  run_each([] {
    const Channel<int> leftmost(0);
    Channel<int> left = leftmost;
    for (int i = 0; i < kFibers; ++i) {
      const Channel<int> right(0);
      go([left, right] { left.send(1 + right.recv().value()); });
      left = right;
    }
    left.send(1);
    EXPECT_EQ(leftmost.recv(), kFibers + 1);
  });
}

TEST(Classics, PingPong) {
  run_each([] {
    for (const int capacity : {0, 1}) {
      Channel<int> ping(capacity);
      Channel<int> pong(capacity);
      go([=] {
        for (const int value : ping) pong.send(value + 1);
        pong.close();
      });
      int value = 0;
      for (int i = 0; i < rounds(5000); ++i) {
        ping.send(value);
        value = pong.recv().value();
      }
      EXPECT_EQ(value, rounds(5000));
      ping.close();
      EXPECT_EQ(pong.recv(), std::nullopt);
    }
  });
}

TEST(Classics, PrimeSieve) {
  run_each([] {
    Channel<int> numbers(0);
    go([numbers] {
      for (int i = 2;; ++i) numbers.send(i);
    });
    std::vector<int> primes;
    for (int i = 0; i < 60; ++i) {
      const int prime = numbers.recv().value();
      primes.push_back(prime);
      const Channel<int> filtered(0);
      go([=] {
        for (const int n : numbers) {
          if (n % prime != 0) filtered.send(n);
        }
      });
      numbers = filtered;
    }
    EXPECT_EQ(primes.front(), 2);
    EXPECT_EQ(primes[9], 29);
    EXPECT_EQ(primes.back(), 281);
  });
}

TEST(Classics, FibonacciUntilQuit) {
  run_each([] {
    Channel<long> numbers(0);
    Channel<int> quit(0);
    std::vector<long> got;
    go([&got, numbers, quit] {
      for (int i = 0; i < 50; ++i) got.push_back(numbers.recv().value());
      quit.send(0);
    });
    long x = 0;
    long y = 1;
    bool running = true;
    while (running) {
      long next = x;
      select(on_send(numbers, next, [&] { x = std::exchange(y, x + y); }),
             on_recv(quit, [&](auto) { running = false; }));
    }
    EXPECT_EQ(got.size(), 50U);
    EXPECT_EQ(got[10], 55);
    EXPECT_EQ(got[49], 7'778'742'049);
  });
}

TEST(Classics, ManySendersAndReceiversSumUp) {
  run_each([] {
    for (const int capacity : {0, 1, 8, 1000}) {
      constexpr int kSenders = 5;
      constexpr int kReceivers = 4;
      constexpr int kEach = rounds(1000);
      Channel<int> c(capacity);
      std::vector<std::atomic<int>> seen(kSenders * kEach);
      TaskGroup receivers;
      for (int r = 0; r < kReceivers; ++r) {
        receivers.go([&] {
          std::array<int, kSenders> last;
          last.fill(-1);
          for (const int value : c) {
            ++seen[static_cast<std::size_t>(value)];
            int& previous = last.at(static_cast<std::size_t>(value / kEach));
            EXPECT_LT(previous, value);  // each sender's values arrive in its order
            previous = value;
          }
        });
      }
      TaskGroup senders;
      for (int s = 0; s < kSenders; ++s) {
        senders.go([=] {
          for (int i = 0; i < kEach; ++i) c.send(s * kEach + i);
        });
      }
      senders.wait();
      c.close();
      receivers.wait();
      for (const std::atomic<int>& count : seen) ASSERT_EQ(count, 1);
    }
  });
}

// Go's test/chan/doubleselect.go: a select that sends on one of four channels sends once.
TEST(Classics, DoubleSelect) {
  run_each([] {
    constexpr int kRounds = rounds(5000);
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
    TaskGroup forwarders;
    for (const Channel<int>& c : channels) {
      forwarders.go([c, merged] {
        for (const int value : c) merged.send(value);
      });
    }
    go([&, merged] {
      forwarders.wait();
      merged.close();
    });
    std::vector<int> seen(kRounds, 0);
    for (const int value : merged) ++seen[static_cast<std::size_t>(value)];
    for (const int count : seen) ASSERT_EQ(count, 1);
  });
}

// Go's test/chan/select3.go tells what blocks; test/chan/fifo.go: order through a chain.
TEST(Classics, FifoChain) {
  run_each([] {
    constexpr int kSize = 100;
    Channel<int> c(kSize);
    Channel<int> in(0);
    const Channel<int> first = in;
    for (int i = 0; i < kSize; ++i) {
      const Channel<int> out(0);
      go([=] {
        if (in.recv() != 1) ADD_FAILURE() << "chain broken";
        c.send(i);
        out.send(1);
      });
      in = out;
    }
    first.send(1);
    EXPECT_EQ(in.recv(), 1);
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(c.recv(), i);
  });
}

// Many fibers come and go, in waves larger than what is kept of stacks.
TEST(Classics, FibersComeAndGo) {
  run_each([] {
    for (int wave = 0; wave < 10; ++wave) {
      const int fibers = rounds(300) * (wave % 3 + 1);
      std::atomic<int> count = 0;
      TaskGroup group;
      for (int i = 0; i < fibers; ++i) {
        group.go([&] {
          yield();
          ++count;
        });
      }
      group.wait();
      EXPECT_EQ(count, fibers);
    }
  });
}

}  // namespace
}  // namespace leat
