// The programs that PaddlePaddle's CSP (framework/concurrency, removed in 2018) was tested with.
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "tests/support/run.h"

namespace leat {
namespace paddle_test {

using support::rounds;
using support::run_each;

TEST(Paddle, FibonacciBySelectUntilQuit) {
  run_each([] {
    for (const int capacity : {0, 1}) {
      Channel<long> numbers(capacity);
      Channel<int> quit(0);
      std::vector<long> got;
      go([&got, numbers, quit] {
        for (int i = 0; i < 10; ++i) got.push_back(numbers.recv().value());
        quit.send(0);
      });
      long x = 0;
      long y = 1;
      bool running = true;
      while (running) {
        long next = x;
        select(on_send(numbers, next, [&] { x = std::exchange(y, x + y); }),
               on_recv(quit, [&](std::optional<int>) { running = false; }));
      }
      EXPECT_EQ(got, (std::vector<long>{0, 1, 1, 2, 3, 5, 8, 13, 21, 34}));
    }
  });
}

TEST(Paddle, PingPong) {
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

}  // namespace paddle_test
}  // namespace leat
