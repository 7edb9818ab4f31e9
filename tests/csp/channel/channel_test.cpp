#include "leat/csp/channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "leat/csp/task_group.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace channel_test {

using support::Counted;
using support::OnlyMoveConstructible;
using support::run_each;
using support::until_idle;

TEST(Channel, ServesWaitingReceiversFirstComeFirstServed) {
  run_each([] {
    Channel<int> c(2);
    std::vector<int> got(10, -1);
    TaskGroup group;
    for (std::size_t i = 0; i < got.size(); ++i) {
      group.go([&, i] { got[i] = c.recv().value(); });
      until_idle();
    }
    for (int i = 0; i < 10; ++i) c.send(i);
    group.wait();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<int>(i));
  });
}

TEST(Channel, ServesWaitingSendersFirstComeFirstServed) {
  run_each([] {
    for (const int capacity : {0, 3}) {
      Channel<int> c(capacity);
      TaskGroup group;
      for (int i = 0; i < 10; ++i) {
        group.go([c, i] { c.send(i); });
        until_idle();
      }
      for (int i = 0; i < 10; ++i) EXPECT_EQ(c.recv(), i);
      group.wait();
    }
  });
}

TEST(Channel, NilIsEmptyAndNeverReady) {
  const Channel<int> nil;
  EXPECT_FALSE(nil);
  EXPECT_EQ(nil.size(), 0U);
  EXPECT_EQ(nil.capacity(), 0U);
  EXPECT_EQ(nil.name(), "");
  EXPECT_EQ(nil, Channel<int>());
  std::optional<int> value;
  EXPECT_EQ(nil.try_send(1), ChannelStatus::would_block);
  EXPECT_EQ(nil.try_recv(value), ChannelStatus::would_block);
  run_each([&] {
    EXPECT_EQ(nil.send_until(1, from_now(Duration(5))), ChannelStatus::timed_out);
    EXPECT_EQ(nil.recv_until(value, from_now(Duration(5))), ChannelStatus::timed_out);
    EXPECT_EQ(support::elapsed(), Duration(10));
  });
}

TEST(Channel, HandlesNameOneChannel) {
  Channel<int> a(1, "a");
  const Channel<int> copy = a;
  const Sender<int> sender = a;
  const Receiver<int> receiver = a;
  EXPECT_TRUE(a);
  EXPECT_EQ(a, copy);
  EXPECT_EQ(sender, a);
  EXPECT_EQ(receiver, a);
  EXPECT_NE(a, Channel<int>(1, "a"));
  EXPECT_EQ(receiver.name(), "a");
  sender.send(3);
  EXPECT_EQ(copy.size(), 1U);
  EXPECT_EQ(receiver.recv(), 3);
}

TEST(Channel, CarriesValuesThatCanOnlyBeMoveConstructed) {
  run_each([] {
    for (const int capacity : {0, 2}) {
      Channel<OnlyMoveConstructible> c(capacity);
      go([c] {
        for (int i = 0; i < 10; ++i) c.send(OnlyMoveConstructible::make(i));
        c.close();
      });
      int expected = 0;
      for (OnlyMoveConstructible& value : c) EXPECT_EQ(value.number(), expected++);
      EXPECT_EQ(expected, 10);
    }
  });
}

TEST(Channel, CarriesOveralignedTypes) {
  struct alignas(256) Wide {
    int number;
  };
  run_each([] {
    for (const int capacity : {0, 1, 3}) {
      Channel<Wide> wide(capacity);
      go([=] {
        for (int i = 0; i < 10; ++i) wide.send(Wide{i});
      });
      for (int i = 0; i < 10; ++i) {
        const std::optional<Wide> value = wide.recv();
        EXPECT_EQ(value->number, i);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&*value) % alignof(Wide), 0U);
      }
    }
  });
}

TEST(Channel, CarriesChannels) {
  run_each([] {
    Channel<Channel<int>> requests(0);
    go([requests] {
      for (Channel<int>& reply : requests) reply.send(42);
    });
    for (int i = 0; i < 10; ++i) {
      Channel<int> reply(0);
      requests.send(reply);
      EXPECT_EQ(reply.recv(), 42);
    }
  });
}

TEST(Channel, FreesValuesThatNobodyReceived) {
  ASSERT_EQ(Counted::live(), 0);
  {
    Channel<Counted> c(4);
    for (int i = 0; i < 3; ++i) c.send(Counted(i));
    EXPECT_EQ(Counted::live(), 3);
    EXPECT_EQ(c.recv()->number(), 0);  // so that the ring wraps around
    c.send(Counted(3));
    c.send(Counted(4));
    EXPECT_EQ(Counted::live(), 4);
  }
  EXPECT_EQ(Counted::live(), 0);
}

TEST(Channel, RangeForDestroysTheValueBeforeItReceivesTheNext) {
  run_each([] {
    ASSERT_EQ(Counted::live(), 0);
    Channel<Counted> c(0);
    TaskGroup group;
    group.go([&] {
      for (int i = 0; i < 5; ++i) {
        until_idle();  // the consumer waits in ++
        EXPECT_EQ(Counted::live(), 0);
        c.send(Counted(i));
      }
      c.close();
    });
    int expected = 0;
    for (Counted& value : c) EXPECT_EQ(value.number(), expected++);
    EXPECT_EQ(expected, 5);
    EXPECT_EQ(Counted::live(), 0);
  });
}

TEST(Channel, RangeForKeepsTheChannelAlive) {
  run_each([] {
    const auto numbers = [](int count) {
      Channel<int> c(0);
      go([c, count] {
        for (int i = 0; i < count; ++i) c.send(i);
        c.close();
      });
      return Receiver<int>(c);
    };
    int sum = 0;
    for (const int value : numbers(10)) sum += value;
    EXPECT_EQ(sum, 45);
  });
}

TEST(Channel, SendHappensBeforeItsReceiveCompletes) {
  run_each([] {  // a race detector's job; the values are what the others can check
    for (const int capacity : {0, 1, 4}) {
      std::vector<int> plain(200, 0);
      Channel<std::size_t> c(capacity);
      TaskGroup group;
      group.go([&] {
        for (std::size_t i = 0; i < plain.size(); ++i) {
          plain[i] = static_cast<int>(i) + 1;
          c.send(i);
        }
      });
      for (std::size_t i = 0; i < plain.size(); ++i) {
        const std::size_t index = c.recv().value();
        EXPECT_EQ(plain[index], static_cast<int>(index) + 1);
      }
    }
  });
}

TEST(Channel, AsASemaphoreItsKthReceiveHappensBeforeTheSendThatFollowsByItsCapacity) {
  run_each([] {
    constexpr int kRoom = 3;
    Channel<int> semaphore(kRoom);
    std::atomic<int> inside = 0;
    std::atomic<int> most = 0;
    TaskGroup group;
    for (int i = 0; i < 20; ++i) {
      group.go([&] {
        semaphore.send(1);
        const int now_inside = ++inside;
        int seen = most.load();
        while (seen < now_inside && !most.compare_exchange_weak(seen, now_inside)) {
        }
        yield();
        --inside;
        static_cast<void>(semaphore.recv());
      });
    }
    group.wait();
    EXPECT_LE(most.load(), kRoom);
    EXPECT_GE(most.load(), 1);
  });
}

}  // namespace channel_test
}  // namespace leat
