// Programs that many fibers run together. Those of Go's own tests are in conformance/.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace classics_test {

using support::rounds;
using support::run_each;

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

}  // namespace classics_test
}  // namespace leat
