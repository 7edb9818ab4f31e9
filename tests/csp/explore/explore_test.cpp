// That the core holds under every schedule of small programs.
#include "leat/csp/explore.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "leat/csp/base/assert.h"
#include "leat/csp/base/futex.h"
#include "leat/csp/blocking.h"
#include "leat/csp/notification.h"
#include "leat/csp/sched/io_pool.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/semaphore.h"
#include "leat/csp/wait_group.h"
#include "tests/csp/explore/holds.h"
#include "tests/csp/explore/scenarios.h"

namespace leat {
namespace explore_test {

using namespace scenarios;
using namespace std::chrono_literals;

// A fiber and plain threads.
template <void (*program)()>
void beside_threads() {
  const OutsideWork threads;
  program();
}

#define LEAT_SCENARIO(name, title, preemptions_of_fibers)                                        \
  TEST(ExploreEvery, title##BetweenThreads) { expect_holds(name<Threads>, every(0)); }           \
  TEST(ExploreEvery, title##BetweenFibers) {                                                     \
    expect_holds(name<Fibers>, every(2, preemptions_of_fibers));                                 \
  }                                                                                              \
  TEST(ExploreSome, title##BetweenFibersOfTwoWorkers) { expect_holds(name<Fibers>, some(2)); }   \
  TEST(ExploreSome, title##BetweenFibersOfThreeWorkers) { expect_holds(name<Fibers>, some(3)); } \
  TEST(ExploreSome, title##BetweenAFiberAndThreads) {                                            \
    expect_holds(beside_threads<name<Threads>>, some(2));                                        \
  }

LEAT_SCENARIO(rendezvous, Rendezvous, 2)
LEAT_SCENARIO(buffered_one, BufferOfOneWakesTheReceiver, 2)
LEAT_SCENARIO(two_senders, TwoSendersKeepTheirOrder, 2)
LEAT_SCENARIO(select_two_peers, SelectTakesOneCaseAtATime, 1)
LEAT_SCENARIO(select_against_close, SelectAgainstClose, 1)
LEAT_SCENARIO(close_wakes_all, CloseWakesAll, 2)
LEAT_SCENARIO(mutual_exclusion, MutexExcludes, 2)
LEAT_SCENARIO(timeout_against_send, TimeoutAgainstSend, 2)

TEST(ExploreEvery, BlockedSendersInTurn) {
  expect_holds(senders_in_turn<Threads>, every(0));
  expect_holds(beside_threads<senders_in_turn<Fibers>>, every(1));
}

// The value is received, or the receiver is cancelled and the value is still there.
void cancellation_against_send() {
  const OutsideWork sender_is_outside;
  Channel<int> c(0);
  std::optional<int> value;
  SimulatedThread sender([&] { c.send(1); });
  {
    TaskGroup group;
    group.go([&] { value = c.recv(); });
    group.stop();
  }
  if (!value) value = c.recv();
  require(value == 1, "the value, once");
}

TEST(ExploreEvery, CancellationAgainstSend) {
  expect_holds(cancellation_against_send, every(1));
  expect_holds(cancellation_against_send, some(2));
}

TEST(ExploreEvery, CancellationAgainstASelectWithoutAChannel) {
  expect_holds(cancellation_against_nil_select, every(2, 1));
  expect_holds(cancellation_against_nil_select, some(2));
}

// Fibers move from worker to worker; each runs to its end, once.
void migration() {
  Atomic<int> turns{0};
  WaitGroup all;
  all.add(3);
  for (int i = 0; i < 3; ++i) {
    go([&] {
      for (int turn = 0; turn < 2; ++turn) {
        turns.fetch_add(1);
        yield();
      }
      all.done();
    });
  }
  all.wait();
  require(turns.load() == 6, "every turn, once");
}

TEST(ExploreEvery, FibersMoveBetweenWorkers) {
  expect_holds(migration, every(2, 1));
  expect_holds(migration, some(2, 4000));
  expect_holds(migration, some(3));
}

void an_empty_run() {}

TEST(ExploreEvery, RunEnds) {
  expect_holds(an_empty_run, every(2, 2));
  expect_holds([] { go([] {}); }, every(2, 2));
}

// The one that is pinned is woken on its worker, which sleeps.
void pinned() {
  Channel<int> c(0);
  TaskGroup group;
  group.go([&] { c.send(1); }, {.pinned = true});
  group.go([&] { c.send(2); }, {.pinned = true});
  require(*c.recv() + *c.recv() == 3, "both values");
  group.wait();
}

TEST(ExploreEvery, PinnedFibersAreWoken) {
  expect_holds(pinned, every(2, 1));
  expect_holds(pinned, some(2, 4000));
}

void sleepers() {
  const TimePoint start = now();
  TaskGroup group;
  for (const auto length : {1ms, 2ms}) {
    group.go([=] {
      sleep_for(length);
      require(now() >= start + length, "not before its time");
    });
  }
  group.wait();
}

TEST(ExploreEvery, SleepersWakeUp) {
  expect_holds(sleepers, every(2, 1));
  expect_holds(sleepers, some(2, 4000));
}

template <int workers>
void wakes_from_outside() {
  Notification told;
  Semaphore room(1);
  Scheduler scheduler({.workers = workers});
  scheduler.go([&] {
    room.acquire();
    told.notify();
    room.release();
  });
  told.wait();
  room.acquire();
  room.release();
  scheduler.join();
}

TEST(ExploreEvery, AnIdleSchedulerIsWokenFromOutside) {
  expect_holds(wakes_from_outside<1>, every(0, 2));
  // Of two workers one may be looking for work: then nobody is woken for it.
  expect_holds(wakes_from_outside<2>, every(0, 1));
  expect_holds(wakes_from_outside<2>, some(0, 4000));
}

// Two hogs, and a fiber that a thread wakes while the worker that looks for work finds a hog first.
void wake_beside_two_hogs() {
  const OutsideWork thread;
  Channel<int> c(0);
  Atomic<bool> woken{false};
  Atomic<bool> told{false};
  go([&] {
    static_cast<void>(c.recv());
    woken.store(true);
  });
  SimulatedThread sender([&] { c.send(1); });
  go([&] {
    while (!woken.load()) yield_cpu();
    told.store(true);
  });
  while (!told.load()) yield_cpu();
  sender.join();
}

TEST(ExploreSome, AThreadWakesAFiberBesideTwoHogs) {
  expect_holds(wake_beside_two_hogs, some(3, 4000));
}

// Two fibers that a hog has waked, of which the second one computes until the first one has run.
void a_hog_that_wakes_two() {
  Channel<int> first(1);
  Channel<int> second(1);
  Atomic<bool> ran{false};
  TaskGroup group;
  group.go([&] {
    static_cast<void>(first.recv());
    ran.store(true);
  });
  group.go([&] {
    static_cast<void>(second.recv());
    while (!ran.load()) yield_cpu();
  });
  first.send(1);
  second.send(1);
  while (!ran.load()) yield_cpu();
  group.wait();
}

// The same where it has launched them.
void a_hog_that_launches_two() {
  Atomic<bool> ran{false};
  TaskGroup group;
  group.go([&] {
    while (!ran.load()) yield_cpu();
  });
  group.go([&] { ran.store(true); });
  while (!ran.load()) yield_cpu();
  group.wait();
}

// A timer that is due while fibers keep their workers busy, whichever worker kept the time.
void hogs_beside_a_sleeper() {
  const OutsideWork thread;
  Channel<int> c(1);
  Atomic<bool> slept{false};
  TaskGroup group;
  group.go([&] {
    sleep_for(1ms);
    slept.store(true);
  });
  group.go([&] {
    static_cast<void>(c.recv());
    while (!slept.load()) yield_cpu();
  });
  SimulatedThread sender([&] { c.send(1); });
  while (!slept.load()) yield_cpu();
  group.wait();
  sender.join();
}

TEST(ExploreSome, AHogDelaysNobodyWhileAWorkerIsIdle) {
  expect_holds(a_hog_that_wakes_two, some(3, 4000));
  expect_holds(a_hog_that_launches_two, some(3, 4000));
  expect_holds(hogs_beside_a_sleeper, some(3, 4000));
}

// It has run, or the fiber was cancelled before it could.
void cancellation_against_blocking() {
  Atomic<int> ran{0};
  bool returned = false;
  TaskGroup group;
  group.go([&] { returned = blocking([&] { return ran.fetch_add(1) == 0; }); });
  yield();
  group.stop();
  try {
    group.wait();
  } catch (const Cancelled&) {
    require(false, "the caller was not cancelled");
  }
  require(ran.load() == (returned ? 1 : 0), "what has run has returned");
}

TEST(ExploreEvery, CancellationAgainstABlockingCall) {
  expect_holds(cancellation_against_blocking, every(1));
  expect_holds(cancellation_against_blocking, some(2));
}

// Threads that have had nothing to do for long end, and others are started when they are wanted.
void a_pool_that_shrinks() {
  IoPool& pool = Fiber::current()->core().io_pool();
  TaskGroup group;
  Atomic<int> ran{0};
  for (int i = 0; i < 2; ++i) group.go([&] { blocking([&] { ran.fetch_add(1); }); });
  group.wait();
  while (pool.threads() > 0) sleep_for(5s);  // or the schedule has no end
  blocking([&] { ran.fetch_add(1); });
  require(ran.load() == 3, "by a new one");
}

TEST(ExploreEvery, APoolOfThreadsShrinks) {
  expect_holds(a_pool_that_shrinks, every(1, 1));
  expect_holds(a_pool_that_shrinks, some(2));
}

// Of two fibers that settle, one by one, each sees what the other two have done at this instant.
void settlers() {
  VirtualClock clock;
  run(
      [] {
        Channel<int> c(0);
        Atomic<int> received{0};
        Atomic<int> inside{0};
        const auto settler = [&] {
          settle();
          require(received.load() == 1, "what can happen has happened");
          require(inside.fetch_add(1) == 0, "one at a time");
          yield();
          inside.fetch_sub(1);
        };
        TaskGroup group;
        group.go(settler, {.pinned = true});
        group.go([&] { c.send(1); });
        group.go([&] { received.store(c.recv().value()); });
        settler();
        group.wait();
      },
      {.workers = 2, .clock = &clock});
}

// The fiber that stops the group runs, so the other one does not go on before.
void cancellation_against_settle() {
  VirtualClock clock;
  run(
      [] {
        bool returned = false;
        TaskGroup group;
        group.go([&] {
          settle();
          returned = true;
        });
        yield();
        group.stop();
        settle();
        group.wait();
        require(!returned, "cancelled");
      },
      {.workers = 2, .clock = &clock});
}

TEST(ExploreEvery, FibersThatSettleGoOnOneAtATime) {
  expect_holds(settlers, every(0, 1));
  expect_holds(settlers, some(0));
}

TEST(ExploreEvery, CancellationAgainstSettle) {
  expect_holds(cancellation_against_settle, every(0, 1));
  expect_holds(cancellation_against_settle, some(0));
}

// Neither missed nor, worse, seen where there is none.
TEST(ExploreEvery, DeadlockIsReported) {
  const auto stuck = [] {
    bool reported = false;
    try {
      run(
          [] {
            Channel<int> c(0);
            go([&] { static_cast<void>(c.recv()); });
            static_cast<void>(c.recv());
          },
          {.workers = 2});
    } catch (const Deadlock&) {
      reported = true;
    }
    require(reported, "a deadlock");
  };
  expect_holds(stuck, every(0, 1));
}

}  // namespace explore_test
}  // namespace leat
