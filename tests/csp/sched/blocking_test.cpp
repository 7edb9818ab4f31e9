// blocking(): calls that block a thread do not block the workers.
#include "leat/csp/blocking.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/sched/io_pool.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace blocking_test {

using support::on_each_worker_count;
using support::on_each_worker_count_with_clock;
using support::run_each;

void run_real(const std::function<void()>& body, int io_threads = 64) {
  on_each_worker_count([&](SchedulerOptions options) {
    options.io_threads = io_threads;
    run(body, options);
  });
}

// On a thread of the pool, and where it is.
void run_both(const std::function<void()>& body) {
  run_real(body);
  run_each(body);
}

TEST(Blocking, ReturnsWhatTheCallReturns) {
  run_both([] {
    EXPECT_EQ(blocking([] { return 42; }), 42);
    EXPECT_EQ(*blocking([] { return std::make_unique<int>(7); }), 7);
    int variable = 1;
    int& same = blocking([&]() -> int& { return variable; });
    EXPECT_EQ(&same, &variable);
    blocking([&] { variable = 2; });
    EXPECT_EQ(variable, 2);
  });
}

TEST(Blocking, ThrowsWhatTheCallThrows) {
  run_both([] {
    try {
      blocking([] { throw std::runtime_error("disk on fire"); });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "disk on fire");
    }
    EXPECT_EQ(blocking([] { return 1; }), 1);
  });
}

TEST(Blocking, RunsOnAThreadThatIsNoFiber) {
  run_real([] {
    EXPECT_TRUE(on_fiber());
    EXPECT_FALSE(blocking([] { return on_fiber(); }));
  });
}

TEST(Blocking, OnAPlainThreadRunsThere) {
  const pid_t here = gettid();
  EXPECT_EQ(blocking([] { return gettid(); }), here);
}

TEST(Blocking, UnderVirtualTimeRunsWhereItIs) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    run(
        [] {
          const pid_t here = gettid();
          EXPECT_EQ(blocking([] { return gettid(); }), here);
        },
        options);
  });
}

TEST(Blocking, UnderVirtualTimeIsShieldedToo) {
  run_each([] {
    TaskGroup group;
    bool returned = false;
    bool waited_on = false;
    bool begun_again = false;
    group.go([&] {
      blocking([&] {
        group.stop();
        support::until_idle();
        returned = true;
      });
      waited_on = true;
      blocking([&] { begun_again = true; });
    });
    group.wait();
    EXPECT_TRUE(returned);
    EXPECT_TRUE(waited_on);
    EXPECT_FALSE(begun_again);
  });
}

// Opens for good, for plain threads.
class Gate {
 public:
  void open() { latch_.count_down(); }
  void wait() { latch_.wait(); }

 private:
  std::latch latch_{1};
};

// Every call holds its thread until all have begun and fibers have worked meanwhile.
TEST(Blocking, WorkersGoOnWhile64CallsBlock) {
  run_real([] {
    constexpr int kCalls = 64;
    const Channel<int> begun(kCalls);
    Gate gate;
    TaskGroup calls;
    for (int i = 0; i < kCalls; ++i) {
      calls.go([&] {
        blocking([&] {
          begun.send(1);
          gate.wait();
        });
      });
    }
    for (int i = 0; i < kCalls; ++i) begun.recv();

    const Channel<int> there(0);
    const Channel<int> back(0);
    TaskGroup echo;
    echo.go([&] {
      for (const int value : there) back.send(value + 1);
    });
    for (int i = 0; i < 1000; ++i) {
      there.send(i);
      EXPECT_EQ(back.recv(), i + 1);
    }
    there.close();
    echo.wait();

    gate.open();
    calls.wait();
  });
}

TEST(Blocking, RunsNoMoreThanItsThreadsAtATimeAndAllInTheEnd) {
  run_real(
      [] {
        std::atomic<int> running = 0;
        std::atomic<int> most = 0;
        std::atomic<int> done = 0;
        TaskGroup calls;
        for (int i = 0; i < 200; ++i) {
          calls.go([&] {
            blocking([&] {
              const int now_running = ++running;
              int seen = most;
              while (seen < now_running && !most.compare_exchange_weak(seen, now_running)) {
              }
              --running;
              ++done;
            });
          });
        }
        calls.wait();
        EXPECT_LE(most, 3);
        EXPECT_EQ(done, 200);
        EXPECT_LE(io_pool_of_caller()->threads(), 3);
      },
      3);
}

// The thread of the call before is free by then.
TEST(Blocking, ACallBehindAnotherNeedsNoThreadMore) {
  run_real(
      [] {
        for (int i = 0; i < 2000; ++i) blocking([] {});
        EXPECT_EQ(io_pool_of_caller()->threads(), 1);
      },
      8);
}

// The only thread is held: the second call waits for its turn, and has not started.
TEST(Blocking, IsCancelledUntilItStarts) {
  run_real(
      [] {
        const Channel<int> begun(1);
        Gate gate;
        TaskGroup holder;
        holder.go([&] {
          blocking([&] {
            begun.send(1);
            gate.wait();
          });
        });
        begun.recv();

        std::atomic<bool> started = false;
        bool cancelled = false;
        TaskGroup waiting;
        waiting.go([&] {
          try {
            blocking([&] { started = true; });
          } catch (const Cancelled&) {
            cancelled = true;
            throw;
          }
        });
        waiting.stop();  // before it has run, or while it waits
        waiting.wait();
        EXPECT_TRUE(cancelled);
        EXPECT_FALSE(started);
        gate.open();
        holder.wait();
        EXPECT_FALSE(started);
      },
      1);
}

// What the call uses lives on the stack of the fiber that is asked to stop.
TEST(Blocking, OnceStartedIsWaitedForThoughItsFiberIsCancelled) {
  run_real([] {
    const Channel<int> begun(1);
    Gate gate;
    std::atomic<bool> unwound = false;
    int result = 0;
    bool cancelled_after = false;
    TaskGroup group;
    group.go([&] {
      try {
        result = blocking([&] {
          begun.send(1);
          gate.wait();
          EXPECT_FALSE(unwound);
          return 42;
        });
        static_cast<void>(Channel<int>(0).recv());  // the cancellation is delivered here
      } catch (const Cancelled&) {
        cancelled_after = true;
      }
      unwound = true;
    });
    begun.recv();
    group.stop();
    yield();
    EXPECT_FALSE(unwound);
    gate.open();
    group.wait();
    EXPECT_EQ(result, 42);
    EXPECT_TRUE(cancelled_after);
  });
}

TEST(Blocking, IsNoDeadlockWhateverElseIsParked) {
  run_real([] {
    const Channel<int> answer(0);
    Gate gate;
    go([&] {
      answer.send(blocking([&] {
        gate.wait();
        return 1;
      }));
    });
    go([&] { blocking([&] { gate.open(); }); });
    EXPECT_EQ(answer.recv(), 1);
  });
}

TEST(Blocking, APoolOfImpossibleSizeIsRefused) {
  EXPECT_THROW(run([] {}, {.workers = 1, .io_threads = 0}), std::invalid_argument);
  EXPECT_THROW(run([] {}, {.workers = 1, .io_threads = -1}), std::invalid_argument);
  EXPECT_THROW(run([] {}, {.workers = 1, .io_threads = 1 << 20}), std::invalid_argument);
}

TEST(Blocking, ManyCallsFromManyFibers) {
  run_each([] {
    std::atomic<int> sum = 0;
    TaskGroup group;
    for (int i = 0; i < 50; ++i) {
      group.go([&, i] {
        for (int k = 0; k < 20; ++k) sum += blocking([&] { return i * k; });
      });
    }
    group.wait();
    EXPECT_EQ(sum, 1225 * 190);
  });
}

}  // namespace blocking_test
}  // namespace leat
