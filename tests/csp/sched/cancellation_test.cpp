#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace cancellation_test {

using namespace std::chrono_literals;
using support::AtExit;
using support::Counted;
using support::run_each;
using support::until_idle;

// A handler of std::exception does not swallow it.
static_assert(!std::is_base_of_v<std::exception, Cancelled>);

/// Runs `wait` on a fiber that is cancelled while it waits in it; true if it threw Cancelled.
bool is_cancelled_in(const std::function<void()>& wait) {
  bool cancelled = false;
  bool returned = false;
  TaskGroup group;
  group.go([&] {
    try {
      wait();
      returned = true;
    } catch (const Cancelled&) {
      cancelled = true;
      throw;
    }
  });
  until_idle();
  EXPECT_FALSE(returned || cancelled) << "did not wait";
  group.stop();
  group.wait();  // Cancelled is not an error
  EXPECT_NE(returned, cancelled);
  return cancelled;
}

/// As above, cancelled before it gets there.
bool is_cancelled_before(const std::function<void()>& wait) {
  bool cancelled = false;
  TaskGroup group;
  group.stop();
  group.go([&] {
    try {
      wait();
    } catch (const Cancelled&) {
      cancelled = true;
    }
  });
  group.wait();
  return cancelled;
}

TEST(Cancellation, UnwindsEveryOperationThatWaits) {
  run_each([] {
    const Channel<int> c(0);
    const Channel<int> nil;
    int value = 1;
    std::optional<int> got;
    const std::vector<std::pair<std::string, std::function<void()>>> operations = {
        {"send", [&] { c.send(1); }},
        {"recv", [&] { static_cast<void>(c.recv()); }},
        {"send to nil", [&] { nil.send(1); }},
        {"recv from nil", [&] { static_cast<void>(nil.recv()); }},
        {"send_until", [&] { static_cast<void>(c.send_until(1, from_now(1h))); }},
        {"recv_until", [&] { static_cast<void>(c.recv_until(got, from_now(1h))); }},
        {"range-for",
         [&] {
           for (int v : c) static_cast<void>(v);
         }},
        {"select", [&] { select(on_recv(c), on_send(c, value)); }},
        {"select with timeout", [&] { select(on_recv(c), on_timeout(1h)); }},
        {"select of nothing", [] { select(); }},
        {"Selector",
         [&] {
           Selector any;
           for (int i = 0; i < 50; ++i) any.add(on_recv(c));
           any.select();
         }},
        {"sleep", [] { sleep_for(1h); }},
        {"sleep for ever", [] { sleep_until(TimePoint::max()); }},
        {"wait",
         [&] {
           TaskGroup inner;
           inner.go([&] { static_cast<void>(c.recv()); });
           inner.wait();
         }},
        {"room in a group",
         [&] {
           TaskGroup inner;
           inner.set_limit(1);
           inner.go([&] { static_cast<void>(c.recv()); });
           inner.go([] {});
         }},
    };
    for (const auto& [name, wait] : operations) {
      EXPECT_TRUE(is_cancelled_in(wait)) << name;
      EXPECT_TRUE(is_cancelled_before(wait)) << name;
    }
    EXPECT_LT(support::elapsed(), 1s);
  });
}

TEST(Cancellation, OfOneFiberLeavesNoTraceInItsChannels) {
  run_each([] {
    Channel<int> c(0);
    Channel<int> d(0);
    int value = 1;
    is_cancelled_in([&] { c.send(1); });
    is_cancelled_in([&] { static_cast<void>(c.recv()); });
    is_cancelled_in([&] { select(on_recv(c), on_send(d, value)); });
    std::optional<int> got;
    EXPECT_EQ(c.try_send(1), ChannelStatus::would_block);
    EXPECT_EQ(c.try_recv(got), ChannelStatus::would_block);
    EXPECT_EQ(d.try_recv(got), ChannelStatus::would_block);
  });
}

TEST(Cancellation, AnUnsentValueIsStillTheCallers) {
  run_each([] {
    Channel<Counted> c(0);
    Counted sent(1);
    Counted selected(2);
    EXPECT_TRUE(is_cancelled_in([&] { c.send(std::move(sent)); }));
    EXPECT_TRUE(is_cancelled_in([&] { select(on_send(c, std::move(selected))); }));
    EXPECT_EQ(sent.number(), 1);
    EXPECT_EQ(selected.number(), 2);
  });
}

TEST(Cancellation, IsDeliveredOnlyWhereAnOperationWouldWait) {
  run_each([] {
    Channel<int> c(2);
    bool went_through = false;
    TaskGroup group;
    group.stop();
    group.go([&] {
      std::optional<int> value;
      c.send(1);
      c.send(2);
      EXPECT_EQ(c.recv(), 1);
      EXPECT_EQ(c.try_send(3), ChannelStatus::ok);
      EXPECT_EQ(c.try_send(4), ChannelStatus::would_block);
      EXPECT_EQ(select(on_recv(c), on_timeout(1h)), 0);
      EXPECT_EQ(select(on_recv(Channel<int>()), otherwise()), 1);
      EXPECT_EQ(c.recv_until(value, from_now(1h)), ChannelStatus::ok);
      sleep_for(0ns);
      yield();
      went_through = true;
      static_cast<void>(c.recv());
      ADD_FAILURE() << "waited";
    });
    group.wait();
    EXPECT_TRUE(went_through);
  });
}

TEST(Cancellation, IsSticky) {
  run_each([] {
    Channel<int> c(0);
    int times = 0;
    TaskGroup group;
    group.go([&] {
      for (int i = 0; i < 10; ++i) {
        try {
          static_cast<void>(c.recv());
        } catch (const Cancelled&) {
          ++times;
        }
      }
    });
    until_idle();
    group.stop();
    group.wait();
    EXPECT_EQ(times, 10);
  });
}

TEST(Cancellation, AnOperationThatItsPeerHasCompletedReturnsNormally) {
  run_each([] {
    Channel<int> c(0);
    std::optional<int> got;
    bool cancelled = false;
    TaskGroup group;
    group.go([&] {
      got = c.recv();
      try {
        static_cast<void>(c.recv());
      } catch (const Cancelled&) {
        cancelled = true;
      }
    });
    until_idle();
    ASSERT_EQ(c.try_send(5), ChannelStatus::ok);  // completes the receive
    group.stop();
    group.wait();
    EXPECT_EQ(got, 5);
    EXPECT_TRUE(cancelled);
  });
}

TEST(Cancellation, RunsDestructorsOfEveryFrame) {
  run_each([] {
    std::atomic<int> unwound = 0;
    const std::function<void(int)> nest = [&](int depth) {
      const AtExit scope(unwound);
      if (depth == 0) static_cast<void>(Channel<int>().recv());
      nest(depth - 1);
    };
    EXPECT_TRUE(is_cancelled_in([&] { nest(9); }));
    EXPECT_EQ(unwound, 10);
  });
}

TEST(Shield, DefersCancellationUntilItsEnd) {
  run_each([] {
    Channel<int> c(0);
    bool cleaned_up = false;
    bool cancelled = false;
    TaskGroup group;
    group.go([&] {
      try {
        const Shield outer;
        {
          const Shield inner;
          EXPECT_EQ(c.recv(), 1);
        }
        EXPECT_EQ(c.recv(), 2);  // still shielded
        sleep_for(1ms);
        cleaned_up = true;
      } catch (const Cancelled&) {
        ADD_FAILURE() << "cancelled inside a Shield";
      }
      try {
        static_cast<void>(c.recv());
      } catch (const Cancelled&) {
        cancelled = true;
      }
    });
    until_idle();
    group.stop();
    until_idle();
    EXPECT_FALSE(cleaned_up);
    c.send(1);
    until_idle();
    c.send(2);
    group.wait();
    EXPECT_TRUE(cleaned_up);
    EXPECT_TRUE(cancelled);
  });
}

TEST(Shield, InADestructorThatCancellationRuns) {
  run_each([] {
    struct SendsInItsDestructor {
      explicit SendsInItsDestructor(Channel<int> to) : c(std::move(to)) {}
      SendsInItsDestructor(const SendsInItsDestructor&) = delete;
      SendsInItsDestructor& operator=(const SendsInItsDestructor&) = delete;
      ~SendsInItsDestructor() {
        const Shield shield;
        c.send(9);
      }
      Channel<int> c;
    };
    Channel<int> c(0);
    TaskGroup group;
    group.go([&] {
      const SendsInItsDestructor object(c);
      sleep_for(1h);
    });
    until_idle();
    group.stop();
    EXPECT_EQ(c.recv(), 9);
  });
}

TEST(Cancellation, ReachesFibersThatAreReadyAndThoseThatHaveNotStarted) {
  run_each([] {
    std::atomic<int> cancelled = 0;
    TaskGroup group;
    for (int i = 0; i < 50; ++i) {
      group.go([&] {
        try {
          for (;;) {
            yield();
            Channel<int> c(0);
            std::optional<int> value;
            static_cast<void>(c.recv_until(value, from_now(1h)));
          }
        } catch (const Cancelled&) {
          ++cancelled;
        }
      });
    }
    group.stop();
    group.wait();
    EXPECT_EQ(cancelled, 50);
  });
}

TEST(Cancellation, DoesNotReachPlainThreads) {
  run_each([] {
    Channel<int> c(0);
    std::optional<int> got;
    const OutsideWork the_thread_below;
    std::thread thread([&] { got = c.recv(); });
    {
      TaskGroup group;
      group.go([&] { static_cast<void>(Channel<int>().recv()); });
      until_idle();
    }
    c.send(1);
    thread.join();
    EXPECT_EQ(got, 1);
  });
}

}  // namespace cancellation_test
}  // namespace leat
