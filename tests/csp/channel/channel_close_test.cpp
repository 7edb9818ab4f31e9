#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace channel_close_test {

using support::Counted;
using support::run_each;
using support::until_idle;

std::exception_ptr cause(const char* what) {
  return std::make_exception_ptr(std::runtime_error(what));
}

/// The message of the exception nested in `outer`.
std::string nested_message(const std::exception& outer) {
  try {
    std::rethrow_if_nested(outer);
  } catch (const std::exception& inner) {
    return inner.what();
  }
  return "nothing is nested";
}

TEST(ChannelClose, WakesBlockedSendersAndTheyKeepTheirValues) {
  run_each([] {
    for (const int capacity : {0, 2}) {
      ASSERT_EQ(Counted::live(), 0);
      Channel<Counted> c(capacity);
      const Channel<int> never(0);
      for (int i = 0; i < capacity; ++i) c.send(Counted(100 + i));
      std::atomic<int> refused = 0;
      TaskGroup group;
      for (int i = 0; i < 20; ++i) {
        group.go([&, i] {
          Counted value(i);
          if (i % 2 == 0) {
            EXPECT_THROW(c.send(std::move(value)), ChannelClosed);
          } else {
            EXPECT_THROW(select(on_recv(never), on_send(c, std::move(value))), ChannelClosed);
          }
          EXPECT_EQ(value.number(), i);
          ++refused;
        });
      }
      until_idle();
      c.close();
      group.wait();
      EXPECT_EQ(refused, 20);
      for (int i = 0; i < capacity; ++i) EXPECT_EQ(c.recv()->number(), 100 + i);
      EXPECT_FALSE(c.recv().has_value());
    }
    EXPECT_EQ(Counted::live(), 0);
  });
}

TEST(ChannelClose, ClosingTheNilChannelThrows) {
  EXPECT_THROW(Channel<int>().close(), ChannelClosed);
  EXPECT_THROW(Sender<int>().close(), ChannelClosed);
  EXPECT_FALSE(Channel<int>().try_close());
}

TEST(ChannelClose, TryCloseClosesOnceAndKeepsTheFirstCause) {
  Channel<int> c(0);
  EXPECT_TRUE(c.try_close(cause("first")));
  EXPECT_FALSE(c.try_close(cause("second")));
  try {
    static_cast<void>(c.recv());
    ADD_FAILURE() << "the cause was not rethrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
}

TEST(ChannelClose, CauseIsRethrownByEveryReceiveAfterDraining) {
  run_each([] {
    Channel<int> c(2);
    c.send(1);
    c.send(2);
    c.close(cause("disk full"));
    EXPECT_EQ(c.recv(), 1);
    EXPECT_EQ(c.recv(), 2);
    std::optional<int> value;
    EXPECT_THROW(static_cast<void>(c.recv()), std::runtime_error);
    EXPECT_THROW(static_cast<void>(c.try_recv(value)), std::runtime_error);
    EXPECT_THROW(static_cast<void>(c.recv_until(value, from_now(Duration(1)))), std::runtime_error);
    EXPECT_THROW(select(on_recv(c)), std::runtime_error);
    EXPECT_THROW(static_cast<void>(c.recv()), std::runtime_error);
  });
}

TEST(ChannelClose, CauseReachesBlockedReceiversAndLeavesTheRangeFor) {
  run_each([] {
    Channel<int> c(0);
    go([c] {
      c.send(1);
      until_idle();
      c.close(cause("disk full"));
    });
    int received = 0;
    try {
      for (const int value : c) received += value;
      ADD_FAILURE() << "the cause was not rethrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "disk full");
    }
    EXPECT_EQ(received, 1);
  });
}

TEST(ChannelClose, CauseIsNestedInTheSendersChannelClosed) {
  run_each([] {
    Channel<int> c(0);
    TaskGroup group;
    group.go([&] {
      try {
        c.send(1);  // blocked when the close comes
        ADD_FAILURE() << "sent on a closed channel";
      } catch (const ChannelClosed& error) {
        EXPECT_EQ(nested_message(error), "disk full");
      }
    });
    until_idle();
    c.close(cause("disk full"));
    group.wait();
    int value = 2;
    try {
      select(on_send(c, value));
      ADD_FAILURE() << "sent on a closed channel";
    } catch (const ChannelClosed& error) {
      EXPECT_EQ(nested_message(error), "disk full");
    }
  });
}

TEST(ChannelClose, WithoutCauseNothingIsNested) {
  Channel<int> c(1);
  c.close();
  try {
    c.send(1);
    ADD_FAILURE() << "sent on a closed channel";
  } catch (const ChannelClosed& error) {
    EXPECT_EQ(nested_message(error), "nothing is nested");
  }
}

TEST(ChannelClose, HappensBeforeAReceiveThatReturnsBecauseOfIt) {
  run_each([] {
    for (int i = 0; i < 100; ++i) {
      int plain = 0;
      Channel<int> c(0);
      go([&, c] {
        plain = 1;
        c.close();
      });
      EXPECT_EQ(c.recv(), std::nullopt);
      EXPECT_EQ(plain, 1);
    }
  });
}

TEST(ChannelClose, DroppingTheLastSenderDoesNotClose) {
  run_each([] {
    Channel<int> c(1);
    { const Sender<int> sender = c; }
    EXPECT_EQ(c.try_send(1), ChannelStatus::ok);
  });
}

// A regression: the parked send looked at its handle after it had been woken.
TEST(ChannelClose, ASendMayOutliveTheHandleThatItParkedOn) {
  run_each([] {
    auto handle = std::make_unique<Channel<Counted>>(0, "gone");
    std::atomic<int> refused = 0;
    TaskGroup group;
    group.go([&refused, c = handle.get()] {
      Counted value(1);
      EXPECT_THROW(c->send(std::move(value)), ChannelClosed);
      ++refused;
    });
    until_idle();
    handle->close(cause("disk full"));
    handle.reset();  // the parked operation owns the channel now
    group.wait();
    EXPECT_EQ(refused, 1);
  });
}

TEST(ChannelClose, AReceiveMayOutliveTheHandleThatItParkedOn) {
  run_each([] {
    auto handle = std::make_unique<Channel<int>>(0);
    TaskGroup group;
    group.go(
        [c = handle.get()] { EXPECT_THROW(static_cast<void>(c->recv()), std::runtime_error); });
    until_idle();
    handle->close(cause("disk full"));
    handle.reset();
    group.wait();
  });
}

}  // namespace channel_close_test
}  // namespace leat
