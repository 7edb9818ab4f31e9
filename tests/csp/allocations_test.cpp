// What the operations of csp allocate: nothing, once they are warm. A program of its own, because
// it replaces the global operator new.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <thread>

#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/notification.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/semaphore.h"
#include "leat/csp/task_group.h"
#include "leat/csp/ticker.h"
#include "leat/csp/wait_group.h"
#include "tests/support/counting_new.h"
#include "tests/support/run.h"

namespace leat {
namespace allocations_test {

using namespace std::chrono_literals;
using support::allocations_of;
using support::run_each;
using support::until_idle;

constexpr int kTimes = 100;

TEST(Allocations, AreCounted) {
  EXPECT_EQ(allocations_of([] { ::operator delete(::operator new(1)); }), 1U);
  EXPECT_EQ(allocations_of([] { Channel<int>(0, "of two: the channel, and no ring"); }), 2U);
}

TEST(Allocations, OfOperationsThatNeedNotWait) {
  run_each([] {
    const Channel<int> c(4);
    const Channel<int> other(4);
    std::optional<int> value;
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < kTimes; ++i) {
                  c.send(i);
                  EXPECT_EQ(c.recv(), i);
                  EXPECT_EQ(c.try_recv(value), ChannelStatus::would_block);
                  select(on_send(c, i), on_recv(other));
                  select(on_recv(c), on_recv(other), on_timeout(1s));
                  select(on_recv(c), otherwise());
                }
              }),
              0U);
  });
}

/// Sends what someone answers, again and again; closes `there` at the end.
void expect_none_in_turns(const Channel<int>& there, const Channel<int>& back) {
  EXPECT_EQ(allocations_of([&] {
              for (int i = 0; i < kTimes; ++i) {
                there.send(i);
                EXPECT_EQ(back.recv(), i);
              }
            }),
            0U);
  there.close();
}

/// With a fiber that runs answer(there, back).
template <class Answer>
void expect_none_with(Answer&& answer) {
  run_each([&] {
    const Channel<int> there(0);
    const Channel<int> back(0);
    TaskGroup group;
    group.go([&answer, there, back] { answer(there, back); });
    expect_none_in_turns(there, back);
  });
}

TEST(Allocations, OfSendsAndReceivesThatWait) {
  expect_none_with([](const Channel<int>& there, const Channel<int>& back) {
    for (const int value : there) back.send(value);
  });
}

TEST(Allocations, OfSelectsThatWait) {
  expect_none_with([](const Channel<int>& there, const Channel<int>& back) {
    const Channel<int> never(0);
    for (bool open = true; open;) {
      select(on_recv(never), on_timeout(1h), on_recv(there, [&](std::optional<int> value) {
               open = value.has_value();
               if (open) select(on_recv(never), on_send(back, *value));
             }));
    }
  });
}

TEST(Allocations, OfOneSelectorAgainAndAgain) {
  expect_none_with([](const Channel<int>& there, const Channel<int>& back) {
    const Channel<int> never(0);
    bool open = true;
    Selector selector;
    selector.add(on_recv(never));
    selector.add(on_recv(there, [&](std::optional<int> value) {
      open = value.has_value();
      if (open) back.send(*value);
    }));
    while (open) selector.select();
  });
}

TEST(Allocations, OfWhatEndsAtADeadline) {
  run_each([] {
    const Channel<int> never(0);
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < kTimes; ++i) {
                  sleep_for(1ms);
                  select(on_recv(never), on_timeout(1ms));
                  std::optional<int> value;
                  EXPECT_EQ(never.recv_until(value, from_now(1ms)), ChannelStatus::timed_out);
                }
              }),
              0U);
  });
}

TEST(Allocations, OfAnAlarmAreFreedWithItsLastReceiver) {
  leat::run(
      [] {
        const Channel<int> values(1);
        const auto held = [] { return support::g_allocations - support::g_frees; };
        const std::size_t before = held();
        for (int i = 0; i < kTimes; ++i) {
          values.send(i);
          EXPECT_EQ(select(on_recv(values), on_recv(after(1h))), 0);
        }
        EXPECT_EQ(held(), before);
      },
      {.workers = 1});
}

TEST(Allocations, OfMutexSemaphoreWaitGroupAndNotification) {
  run_each([] {
    Mutex mutex;
    Semaphore semaphore(0);
    WaitGroup wait_group;
    const Channel<Notification*> turns(0);
    TaskGroup group;
    group.go([&, turns] {
      for (Notification* const turn : turns) {
        const std::scoped_lock lock(mutex);
        turn->notify();
        semaphore.release();
        wait_group.done();
      }
    });
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < kTimes; ++i) {
                  Notification turn;
                  wait_group.add(1);
                  {
                    const std::scoped_lock lock(mutex);
                    turns.send(&turn);
                    until_idle();  // the other one waits for the mutex
                  }
                  turn.wait();
                  semaphore.acquire();
                  wait_group.wait();
                }
              }),
              0U);
    turns.close();
  });
}

TEST(Allocations, OfAPlainThreadAtTheOtherEnd) {
  const Channel<int> there(0);
  const Channel<int> back(0);
  // Where only the thread uses them, which may be late: no deadlock is reported meanwhile.
  std::optional<int> nothing;
  ASSERT_EQ(there.try_recv(nothing), ChannelStatus::would_block);
  ASSERT_EQ(back.try_recv(nothing), ChannelStatus::would_block);
  std::thread thread([&] {
    for (const int value : there) back.send(value);
  });
  leat::run([&] { expect_none_in_turns(there, back); });
  thread.join();
}

// A closure of 32 bytes is kept in the fiber. Fibers that end on another worker than they were
// launched on come back in batches, so with several workers it takes a while until there are
// enough.
TEST(Allocations, OfALaunch) {
  support::on_each_worker_count_with_clock(
      [](const SchedulerOptions& options, const VirtualClock&) {
        leat::run(
            [&options] {
              std::atomic<int> ran = 0;
              TaskGroup group;
              const std::array<void*, 3> captured{};
              const auto launch = [&](int rounds) {
                for (int i = 0; i < rounds * kTimes; ++i) {
                  group.go([&ran, captured] { ran += captured[0] == nullptr ? 1 : 0; });
                  if (i % kTimes == kTimes - 1) until_idle();
                }
              };
              const std::size_t allocations = allocations_of([&] { launch(10); });
              if (options.workers == 1) {
                EXPECT_EQ(allocations, 0U);
              } else {
                EXPECT_LT(allocations, 10U * kTimes / 10U);
              }
              EXPECT_EQ(ran, 11 * 10 * kTimes);
            },
            options);
      });
}

}  // namespace allocations_test
}  // namespace leat
