// What a program tells about itself: dump, SIGQUIT, stack overflows, channel counters.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/base/on_sigquit.h"
#include "leat/csp/base/sanitizers.h"
#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace dump_test {

using namespace std::chrono_literals;
using support::on_each_worker_count;
using support::on_each_worker_count_with_clock;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Under virtual time all others are parked when sleep_for returns.
TEST(Dump, NamesEveryFiberAndWhatItWaitsFor) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    run(
        [] {
          const Channel<int> values(0, "values");
          const Channel<int> full(1, "full");
          full.send(1);
          Mutex mutex;
          mutex.lock();
          TaskGroup group;
          group.go([&] { static_cast<void>(values.recv()); }, {.name = "reader"});
          group.go([&] { full.send(2); }, {.name = "writer"});
          group.go([&] { select(on_recv(values), on_send(full, 3)); }, {.name = "chooser"});
          group.go([&] { mutex.lock(); }, {.name = "locker"});
          group.go([&] { sleep_for(1h); }, {.name = "sleeper"});
          sleep_for(1s);
          const std::string text = dump();
          EXPECT_TRUE(has(text, "leat: 6 fibers on ")) << text;
          EXPECT_TRUE(has(text, "\"main\" runs")) << text;
          EXPECT_TRUE(has(text, "\"reader\" waits for recv on channel \"values\"")) << text;
          EXPECT_TRUE(has(text, "\"writer\" waits for send on channel \"full\"")) << text;
          EXPECT_TRUE(
              has(text, "\"chooser\" waits for select on channel \"values\", channel \"full\""))
              << text;
          EXPECT_TRUE(has(text, "\"locker\" waits for a mutex")) << text;
          EXPECT_TRUE(has(text, "\"sleeper\" waits for sleep")) << text;
          mutex.unlock();
          group.stop();
        },
        options);
  });
}

TEST(Dump, OfAGroupHasItsFibersAlone) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    run(
        [] {
          const Channel<int> values(0, "values");
          TaskGroup group;
          TaskGroup other;
          other.go([] { sleep_for(1h); }, {.name = "other"});
          EXPECT_TRUE(group.fibers().empty());
          group.go([&] { static_cast<void>(values.recv()); }, {.name = "reader"});
          group.go([] { sleep_for(1h); }, {.name = "sleeper"});
          sleep_for(1s);
          std::vector<FiberReport> fibers = group.fibers();
          ASSERT_EQ(fibers.size(), 2U);
          EXPECT_LT(fibers[0].id, fibers[1].id);
          std::ranges::sort(fibers, {}, &FiberReport::name);
          EXPECT_EQ(fibers[0].name, "reader");
          EXPECT_TRUE(has(fibers[0].state, "waits for recv on channel \"values\""))
              << fibers[0].state;
          EXPECT_EQ(fibers[1].name, "sleeper");
          EXPECT_TRUE(has(fibers[1].state, "waits for sleep")) << fibers[1].state;
          other.stop();
          group.stop();
          group.wait();
          EXPECT_TRUE(group.fibers().empty());
        },
        options);
  });
}

TEST(Dump, NeedsAScheduler) { EXPECT_THROW(static_cast<void>(dump()), std::logic_error); }

// Fibers come, wait, communicate and end while they are listed, again and again.
TEST(Dump, MayBeAskedForAtAnyTimeFromAnywhere) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Scheduler scheduler(options);
    std::atomic<bool> over = false;
    for (int i = 0; i < 4; ++i) {
      scheduler.go([&] {
        while (!over) {
          const Channel<std::string> values(0, "a name that is too long for the string itself");
          TaskGroup group;
          group.go([&] { values.send("value"); }, {.name = "a sender with a long name, too"});
          EXPECT_TRUE(values.recv().has_value());
        }
      });
    }
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(has(scheduler.dump(), "leat: ")) << i;
      std::this_thread::yield();
    }
    over = true;
    scheduler.join();
  });
}

class DumpDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(DumpDeathTest, SigquitPrintsItWhereItIsAskedFor) {
  EXPECT_EXIT(
      {
        {
          const Channel<int> answer(0, "answer");
          Scheduler scheduler({.workers = 1, .dump_on_sigquit = true});
          scheduler.go([answer] { static_cast<void>(answer.recv()); }, {.name = "patient"});
          while (answer.stats().receivers == 0) std::this_thread::yield();
          std::raise(SIGQUIT);
          answer.send(1);
          scheduler.join();
        }  // a request before the end has been answered
        std::exit(0);
      },
      testing::ExitedWithCode(0), "fibers? on 1 workers");
}

TEST_F(DumpDeathTest, WithoutBeingAskedForSigquitEndsTheProgram) {
  rlimit no_core{};
  setrlimit(RLIMIT_CORE, &no_core);
  EXPECT_EXIT(
      {
        std::signal(SIGQUIT, SIG_DFL);  // a shell's job in the background ignores it
        { const Scheduler scheduler({.workers = 1, .dump_on_sigquit = true}); }
        std::raise(SIGQUIT);  // the handler from before is back
      },
      testing::KilledBySignal(SIGQUIT), "");
}

// From now on, a futex call of this thread that wakes all waiters fails with EACCES.
bool refuse_to_wake_all() {
  const auto argument = [](unsigned i) {
    return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + i * sizeof(std::uint64_t));
  };
  std::array<sock_filter, 8> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(1)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(2)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, std::numeric_limits<int>::max(), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program = {.len = filter.size(), .filter = filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// A regression: a program that a signal interrupted between a call and its look at errno saw
// another error, or none.
TEST(Sigquit, KeepsErrno) {
  const OnSigquit nothing([] {});
  bool refused = false;
  int error = 0;
  std::thread([&] {  // the filter is of this thread, and goes with it
    refused = refuse_to_wake_all();
    errno = EDOM;
    std::raise(SIGQUIT);
    error = errno;
  })
      .join();
  EXPECT_EQ(error, EDOM);
  if (!refused) GTEST_SKIP() << "system calls cannot be filtered here";
}

__attribute__((noinline)) int recurse(int depth) {
  volatile char frame[512] = {};
  frame[static_cast<std::size_t>(depth) % sizeof(frame)] = 1;
  return depth > 0 ? recurse(depth - 1) + frame[0] : frame[0];
}

TEST_F(DumpDeathTest, AStackOverflowNamesTheFiber) {
  EXPECT_DEATH(run(
                   [] {
                     TaskGroup group;
                     group.go([] { static_cast<void>(recurse(100'000'000)); }, {.name = "glutton"});
                     group.wait();
                   },
                   {.workers = 1}),
               "stack overflow in fiber [0-9]+ \"glutton\"");
}

TEST(ChannelStats, CountsValuesAndWhoWaits) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    run(
        [] {
          EXPECT_EQ(Channel<int>().stats().capacity, 0U);
          const Channel<int> c(2, "c");
          TaskGroup group;
          for (int i = 0; i < 5; ++i) group.go([&] { c.send(1); });
          sleep_for(1s);
          ChannelStats stats = c.stats();
          EXPECT_EQ(stats.capacity, 2U);
          EXPECT_EQ(stats.sent, 2U);
          EXPECT_EQ(stats.received, 0U);
          EXPECT_EQ(stats.buffered, 2U);
          EXPECT_EQ(stats.senders, 3U);
          EXPECT_EQ(stats.receivers, 0U);
          for (int i = 0; i < 5; ++i) c.recv();
          group.wait();
          stats = c.stats();
          EXPECT_EQ(stats.sent, 5U);
          EXPECT_EQ(stats.received, 5U);
          EXPECT_EQ(stats.senders, 0U);

          const Channel<int> rendezvous(0);
          group.go([&] { rendezvous.recv(); });
          sleep_for(1s);
          EXPECT_EQ(rendezvous.stats().receivers, 1U);
          rendezvous.send(1);
          EXPECT_EQ(rendezvous.stats().sent, 1U);
          EXPECT_EQ(rendezvous.stats().received, 1U);
        },
        options);
  });
}

/// `waits` communicates on a channel, `comes` with it from the other side 20 ms later. What the
/// channel says about waits: lower bounds, of real time, by a clock that is sampled at some
/// of the switches.
template <class Waits, class Comes>
ChannelStats stats_of_a_wait(Waits&& waits, Comes&& comes) {
  const Channel<int> c(0);
  TaskGroup group;
  group.go([&] { waits(c); });
  while (c.stats().receivers + c.stats().senders == 0) yield();
  const TimePoint start = now();
  while (now() - start < 20ms) yield();
  for (int i = 0; i < 2000; ++i) yield();  // in which it is sampled once more
  comes(c);
  group.wait();
  return c.stats();
}

TEST(ChannelStats, TellsWhichSideWaited) {
  const auto sends = [](const Channel<int>& c) { c.send(1); };
  const auto receives = [](const Channel<int>& c) { static_cast<void>(c.recv()); };
  on_each_worker_count([&](const SchedulerOptions& options) {
    run(
        [&] {
          const ChannelStats receiver_waited = stats_of_a_wait(receives, sends);
          EXPECT_GE(receiver_waited.recv_wait, 10ms);
          EXPECT_LT(receiver_waited.send_wait, 10ms);
          const ChannelStats sender_waited = stats_of_a_wait(sends, receives);
          EXPECT_GE(sender_waited.send_wait, 10ms);
          EXPECT_LT(sender_waited.recv_wait, 10ms);
        },
        options);
  });
}

}  // namespace dump_test
}  // namespace leat
