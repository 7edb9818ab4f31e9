#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace channel_timed_test {

using namespace std::chrono_literals;
using support::Counted;
using support::elapsed;
using support::run_each;

TEST(ChannelTry, AFailedSendHasNotMovedFromItsArgument) {
  run_each([] {
    Channel<std::unique_ptr<int>> full(1);
    full.send(nullptr);
    Channel<std::unique_ptr<int>> rendezvous(0);
    auto value = std::make_unique<int>(1);
    EXPECT_EQ(full.try_send(std::move(value)), ChannelStatus::would_block);
    EXPECT_NE(value, nullptr);
    EXPECT_EQ(rendezvous.try_send(std::move(value)), ChannelStatus::would_block);
    EXPECT_NE(value, nullptr);
    EXPECT_EQ(full.send_until(std::move(value), from_now(1ms)), ChannelStatus::timed_out);
    EXPECT_NE(value, nullptr);
    EXPECT_EQ(rendezvous.send_until(std::move(value), from_now(1ms)), ChannelStatus::timed_out);
    EXPECT_NE(value, nullptr);
    static_cast<void>(full.recv());
    EXPECT_EQ(full.try_send(std::move(value)), ChannelStatus::ok);
    EXPECT_EQ(value, nullptr);
  });
}

TEST(ChannelTry, TakesNoTime) {
  run_each([] {
    Channel<int> c(0);
    std::optional<int> value;
    for (int i = 0; i < 100; ++i) {
      static_cast<void>(c.try_send(1));
      static_cast<void>(c.try_recv(value));
    }
    EXPECT_EQ(elapsed(), 0ns);
  });
}

TEST(ChannelTimed, GivesUpAtItsDeadlineExactlyAndLeavesNoTrace) {
  run_each([] {
    Channel<int> c(0);
    std::optional<int> value = 1;
    EXPECT_EQ(c.recv_until(value, from_now(250ms)), ChannelStatus::timed_out);
    EXPECT_EQ(value, std::nullopt);
    EXPECT_EQ(elapsed(), 250ms);
    EXPECT_EQ(c.try_send(1), ChannelStatus::would_block);
    EXPECT_EQ(c.send_until(1, from_now(3h)), ChannelStatus::timed_out);
    EXPECT_EQ(elapsed(), 3h + 250ms);
    EXPECT_EQ(c.try_recv(value), ChannelStatus::would_block);
  });
}

TEST(ChannelTimed, APastDeadlineTriesOnce) {
  run_each([] {
    Channel<int> c(1);
    std::optional<int> value;
    sleep_for(1ms);
    EXPECT_EQ(c.recv_until(value, now() - 1us), ChannelStatus::timed_out);
    EXPECT_EQ(c.send_until(1, now() - 1us), ChannelStatus::ok);
    EXPECT_EQ(c.send_until(2, now() - 1us), ChannelStatus::timed_out);
    EXPECT_EQ(c.recv_until(value, TimePoint(-5ns)), ChannelStatus::ok);
    EXPECT_EQ(c.recv_until(value, TimePoint(-5ns)), ChannelStatus::timed_out);
    EXPECT_EQ(c.recv_until(value, TimePoint::min()), ChannelStatus::timed_out);
    EXPECT_EQ(elapsed(), 1ms);
  });
}

TEST(ChannelTimed, ReturnsAsSoonAsThePeerComes) {
  run_each([] {
    Channel<int> c(0);
    TaskGroup group;
    group.go([&] {
      sleep_for(2ms);
      EXPECT_EQ(c.send_until(1, from_now(5ms)), ChannelStatus::ok);
      EXPECT_EQ(elapsed(), 2ms);
      EXPECT_EQ(c.send_until(2, from_now(5ms)), ChannelStatus::ok);
      EXPECT_EQ(elapsed(), 4ms);
    });
    std::optional<int> value;
    EXPECT_EQ(c.recv_until(value, from_now(5ms)), ChannelStatus::ok);
    EXPECT_EQ(value, 1);
    EXPECT_EQ(elapsed(), 2ms);
    sleep_for(2ms);
    EXPECT_EQ(c.recv_until(value, from_now(5ms)), ChannelStatus::ok);
    EXPECT_EQ(value, 2);
    group.wait();
    EXPECT_EQ(elapsed(), 4ms);
  });
}

TEST(ChannelTimed, AtTheSameInstantEitherThePeerOrTheDeadlineWinsNeverBoth) {
  run_each([] {
    for (int i = 0; i < 50; ++i) {
      Channel<Counted> c(0);
      const TimePoint meeting = now() + 1ms;
      TaskGroup group;
      bool sent = false;
      group.go([&] {
        sleep_until(meeting);
        sent = c.try_send(Counted(i)) == ChannelStatus::ok;
      });
      std::optional<Counted> value;
      const ChannelStatus status = c.recv_until(value, meeting);
      group.wait();
      EXPECT_EQ(status, sent ? ChannelStatus::ok : ChannelStatus::timed_out);
      EXPECT_EQ(value.has_value(), sent);
    }
    EXPECT_EQ(Counted::live(), 0);
  });
}

TEST(ChannelTimed, NeverIsADeadlineThatDoesNotCome) {
  run_each([] {
    Channel<int> c(0);
    go([c] {
      sleep_for(24h);
      c.send(1);
    });
    std::optional<int> value;
    EXPECT_EQ(c.recv_until(value, TimePoint::max()), ChannelStatus::ok);
    EXPECT_EQ(elapsed(), 24h);
  });
}

}  // namespace channel_timed_test
}  // namespace leat
