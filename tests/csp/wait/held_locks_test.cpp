// What an operation holds while its waiter is switched away from.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/wait/guest.h"
#include "leat/csp/wait/waiter.h"

namespace leat {
namespace held_locks_test {

using namespace std::chrono_literals;

// The locks of each wait that has begun, in order.
std::vector<HeldLocks> g_held;

// A waiter whose deadline comes at once: park() returns before `held` is dropped, as it does for a
// fiber whose timer fires on another worker between the switch and the drop.
class TimesOutBeforeTheDrop final : public Waiter {
 public:
  void park(Deadline deadline, const HeldLocks& held) noexcept override {
    EXPECT_FALSE(deadline.is_never());
    g_held.push_back(held);
    EXPECT_TRUE(claim(kTimedOut));
  }
  void ready() noexcept override {}
};

class SelectWithoutAChannel : public testing::Test {
 protected:
  SelectWithoutAChannel()
      : previous_(set_guest_wait([](void (*operation)(void*, Waiter&), void* argument) {
          TimesOutBeforeTheDrop waiter;
          operation(argument, waiter);
        })) {
    g_held.clear();
  }
  ~SelectWithoutAChannel() override { reset_guest_wait(previous_); }

  // After the select has ended, its worker still calls HeldLocks::unlock_after_switch().
  static void expect_nothing_to_read() {
    ASSERT_EQ(g_held.size(), 1U);
    EXPECT_EQ(g_held[0].one, nullptr);
    EXPECT_EQ(g_held[0].drop, nullptr);
    EXPECT_EQ(g_held[0].argument, nullptr);
  }

 private:
  const GuestWait previous_;
};

TEST_F(SelectWithoutAChannel, OfNilChannelsIsNotReadAfterItsEnd) {
  const Channel<int> first;
  const Channel<int> second;
  EXPECT_EQ(select(on_recv(first), on_recv(second), on_timeout(1us)), 2);
  expect_nothing_to_read();
}

TEST_F(SelectWithoutAChannel, OfATimeoutAloneIsNotReadAfterItsEnd) {
  EXPECT_EQ(select(on_timeout(1us)), 0);
  expect_nothing_to_read();
}

TEST_F(SelectWithoutAChannel, OfDisabledCasesIsNotReadAfterItsEnd) {
  Selector any;
  any.disable(any.add(on_recv(Channel<int>(1))));
  any.disable(any.add(on_recv(Channel<int>(1))));
  EXPECT_FALSE(any.select_until(from_now(1us)).has_value());
  expect_nothing_to_read();
}

}  // namespace held_locks_test
}  // namespace leat
