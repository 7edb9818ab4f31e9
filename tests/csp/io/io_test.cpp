// Waits for descriptors that end as they should. Those that cannot: io_errors_test.cpp.
#include "leat/csp/io.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/task_group.h"
#include "tests/csp/io/ends.h"
#include "tests/support/plain_threads.h"
#include "tests/support/run.h"

namespace leat {
namespace io_test {

using namespace std::chrono_literals;
using support::drain;
using support::Ends;
using support::fill;
using support::has;
using support::on_fibers;
using support::put;
using support::take;
using support::until_waited_for;

TEST(Io, AFiberWaitsUntilItsDescriptorIsReadable) {
  on_fibers([] {
    const Ends ends = Ends::sockets();
    TaskGroup group;
    group.go([&] {
      await_readable(ends[0]);
      EXPECT_EQ(take(ends[0]), "data");
    });
    until_waited_for(ends[0]);
    put(ends[1], "data");
    group.wait();
    put(ends[1], "more");
    await_readable(ends[0]);  // at once
    EXPECT_EQ(take(ends[0]), "more");
  });
}

TEST(Io, AFiberWaitsUntilItsDescriptorIsWritable) {
  on_fibers([] {
    const Ends ends = Ends::of_pipe();
    await_writable(ends[1]);  // at once
    fill(ends[1]);
    TaskGroup group;
    group.go([&] {
      await_writable(ends[1]);
      put(ends[1], "x");
    });
    until_waited_for(ends[1], "writable");
    drain(ends[0]);
    group.wait();
  });
}

TEST(Io, APlainThreadWaits) {
  const Ends ends = Ends::sockets();
  support::on_plain_threads(
      1,
      [&](int) {
        for (int i = 0; i < 3; ++i) {
          await_readable(ends[0]);
          EXPECT_EQ(take(ends[0]), "to");
          put(ends[0], "fro");
        }
      },
      [&] {
        for (int i = 0; i < 3; ++i) {
          put(ends[1], "to");
          const Channel<int> never(0);
          EXPECT_EQ(select(on_recv(never), on_readable(ends[1])), 1);
          EXPECT_EQ(take(ends[1]), "fro");
        }
      });
}

TEST(Io, AHangUpAndABrokenPipeAreReady) {
  on_fibers([] {
    Ends sockets = Ends::sockets();
    Ends pipe = Ends::of_pipe();
    fill(pipe[1]);
    TaskGroup group;
    group.go([&] {
      await_readable(sockets[0]);
      EXPECT_EQ(take(sockets[0]), "");
    });
    group.go([&] {
      await_writable(pipe[1]);
      const auto before = std::signal(SIGPIPE, SIG_IGN);
      EXPECT_EQ(write(pipe[1], "x", 1), -1);
      EXPECT_EQ(errno, EPIPE);
      std::signal(SIGPIPE, before);
    });
    until_waited_for(sockets[0]);
    until_waited_for(pipe[1], "writable");
    close(sockets.give(1));
    close(pipe.give(0));
    group.wait();
  });
}

TEST(Io, ADescriptorIsWaitedForInBothDirectionsAtATime) {
  on_fibers([] {
    const Ends ends = Ends::sockets();
    fill(ends[0]);
    std::atomic<bool> may_read = false;
    std::atomic<bool> has_read = false;
    std::atomic<bool> may_write = false;
    TaskGroup group;
    group.go([&] {
      await_readable(ends[0]);
      EXPECT_TRUE(may_read);
      has_read = true;
    });
    group.go([&] {
      await_writable(ends[0]);
      EXPECT_TRUE(may_write);
    });
    until_waited_for(ends[0], "readable");
    until_waited_for(ends[0], "writable");
    may_read = true;
    put(ends[1], "x");
    while (!has_read) yield();
    may_write = true;
    drain(ends[1]);
    group.wait();
  });
}

TEST(Io, AllFibersThatWaitForOneDescriptorAreWoken) {
  on_fibers([] {
    const Ends ends = Ends::sockets();
    TaskGroup group;
    for (int i = 0; i < 3; ++i) group.go([&] { await_readable(ends[0]); });
    until_waited_for(ends[0], "readable", 3);
    put(ends[1], "x");
    group.wait();
  });
}

TEST(Io, ASelectTakesTheCaseThatIsReady) {
  on_fibers([] {
    const Ends ends = Ends::sockets();
    const Channel<int> values(0, "values");
    const Channel<int> taken(0, "taken");
    TaskGroup group;
    group.go([&] {
      for (int i = 0; i < 4; ++i) {
        taken.send(select(on_recv(values),
                          on_readable(ends[0], [&] { EXPECT_EQ(take(ends[0]), "data"); })));
      }
    });
    for (int i = 0; i < 2; ++i) {
      until_waited_for(ends[0]);
      values.send(i);
      EXPECT_EQ(taken.recv(), 0);
      until_waited_for(ends[0]);
      put(ends[1], "data");
      EXPECT_EQ(taken.recv(), 1);
    }
    group.wait();
  });
}

TEST(Io, AFiberWhoseDescriptorIsAlwaysReadyGivesWay) {
  on_fibers([] {
    const Ends ends = Ends::sockets();
    put(ends[1], "x");
    const Channel<int> never(0);
    for (const bool beside_others : {false, true}) {
      std::atomic<bool> ran = false;
      TaskGroup group;
      group.go([&] { ran = true; });
      while (!ran) {
        if (beside_others) {
          select(on_recv(never), on_readable(ends[0]));
        } else {
          await_readable(ends[0]);
        }
      }
      group.wait();
    }
  });
}

TEST(Io, ATryTakesWhatIsThere) {
  on_fibers([] {
    const Ends ends = Ends::sockets();
    const Channel<int> never(0);
    EXPECT_EQ(select(on_readable(ends[0]), otherwise()), 1);
    EXPECT_EQ(select(on_readable(ends[0]), on_recv(never), otherwise()), 2);
    put(ends[1], "x");
    EXPECT_EQ(select(on_readable(ends[0]), otherwise()), 0);
    EXPECT_EQ(select(on_recv(never), on_readable(ends[0]), otherwise()), 1);
    EXPECT_EQ(select(on_recv(never), on_writable(ends[0])), 1);
    Selector any;
    any.add(on_recv(never));
    any.add(on_readable(ends[0]));
    EXPECT_EQ(any.try_select(), 1U);
    take(ends[0]);
    EXPECT_EQ(any.try_select(), std::nullopt);
  });
}

TEST(Io, ASelectorsCaseIsReadyAgainAndAgain) {
  on_fibers([] {
    const std::vector<Ends> all = [] {
      std::vector<Ends> made;
      for (int i = 0; i < 4; ++i) made.push_back(Ends::sockets());
      return made;
    }();
    Selector any;
    for (const Ends& ends : all) {
      any.add(on_readable(ends[0], [&] { put(ends[0], take(ends[0]) + "!"); }));
    }
    TaskGroup group;
    group.go([&] {
      for (int i = 0; i < 40; ++i) any.select();
    });
    for (int i = 0; i < 40; ++i) {
      const Ends& ends = all[static_cast<std::size_t>(i) % all.size()];
      put(ends[1], std::to_string(i));
      await_readable(ends[1]);
      EXPECT_EQ(take(ends[1]), std::to_string(i) + "!");
    }
    group.wait();
  });
}

// The wait that lost was armed, and its data is gone when the next wait begins.
TEST(Io, AWaitIsNotEndedByWhatAnEarlierOneWaitedFor) {
  on_fibers([] {
    const Ends ends = Ends::sockets();
    for (int i = 0; i < 20; ++i) {
      Selector any;
      const Channel<int> stop(1, "stop");
      any.add(on_readable(ends[0]));
      any.add(on_recv(stop));
      stop.send(0);
      const bool stopped = any.select() == 1;  // the descriptor is armed
      EXPECT_TRUE(stopped);
      put(ends[1], "x");
      EXPECT_EQ(take(ends[0]), "x");
      if (i % 2 == 0) any.clear();
      EXPECT_FALSE(await_readable_until(ends[0], now() + 100us));
      EXPECT_EQ(any.try_select(), std::nullopt);
    }
  });
}

TEST(Io, AWaitEndsAtItsDeadline) {
  on_fibers([] {
    const Ends ends = Ends::sockets();
    const TimePoint start = now();
    EXPECT_FALSE(await_readable_until(ends[0], start + 2ms));
    EXPECT_GE(now(), start + 2ms);
    EXPECT_FALSE(await_readable_until(ends[0], start));
    EXPECT_EQ(select(on_readable(ends[0]), on_timeout(1ms)), 1);
    EXPECT_TRUE(await_writable_until(ends[0], start));
  });
  const Ends ends = Ends::sockets();
  EXPECT_FALSE(await_readable_until(ends[0], now() + 1ms));
  put(ends[1], "x");
  EXPECT_TRUE(await_readable_until(ends[0], now() + 1h));
}

template <std::size_t... I>
int select_readable(const std::vector<Ends>& all, std::index_sequence<I...> /*places*/) {
  return select(on_readable(all[I][0])..., on_timeout(1h));
}

// While it looks, the fiber that counts runs between two looks.
TEST(Io, ASelectLooksAsLittleForManyDescriptorsAsForOne) {
  run(
      [] {
        std::vector<Ends> all;
        for (int i = 0; i < 12; ++i) all.push_back(Ends::sockets());
        TaskGroup group;
        group.go([&] { EXPECT_EQ(select_readable(all, std::make_index_sequence<12>()), 11); });
        int looks = 0;
        for (; !has(dump(), "descriptor " + std::to_string(all[0][0]) + " is"); yield()) ++looks;
        EXPECT_LT(looks, 1000);
        put(all[11][1], "x");
        group.wait();
      },
      {.workers = 1});
}

TEST(Io, ACancelledFiberStopsWaiting) {
  on_fibers([] {
    const Ends ends = Ends::sockets();
    TaskGroup group;
    std::atomic<bool> shielded_ended = false;
    group.go([&] {
      await_readable(ends[0]);
      ADD_FAILURE() << "not cancelled";
    });
    group.go([&] {
      const Shield shield;
      await_readable(ends[0]);
      EXPECT_EQ(take(ends[0]), "x");
      shielded_ended = true;
    });
    until_waited_for(ends[0], "readable", 2);
    group.stop();
    until_waited_for(ends[0], "readable", 1);
    EXPECT_FALSE(shielded_ended);
    put(ends[1], "x");
    group.wait();
    EXPECT_TRUE(shielded_ended);
  });
}

TEST(Io, ASchedulerEndsWhileItsFibersWait) {
  const Ends ends = Ends::sockets();
  const Channel<int> begun(0);
  {
    Scheduler scheduler({.workers = 2});
    for (int i = 0; i < 3; ++i) {
      scheduler.go([&] {
        begun.send(0);
        await_readable(ends[0]);
      });
    }
    for (int i = 0; i < 3; ++i) begun.recv();
  }
  put(ends[1], "x");
  await_readable(ends[0]);
}

// deadlock_after is 0 here.
TEST(Io, AWaitForADescriptorIsNoDeadlock) {
  on_fibers([] {
    const Ends ends = Ends::sockets();
    std::thread writer;
    {
      TaskGroup group;
      group.go([&] { await_readable(ends[0]); });
      until_waited_for(ends[0]);
      writer = std::thread([&] {
        std::this_thread::sleep_for(5ms);
        put(ends[1], "x");
      });
      group.wait();
    }
    writer.join();
  });
}

}  // namespace io_test
}  // namespace leat
