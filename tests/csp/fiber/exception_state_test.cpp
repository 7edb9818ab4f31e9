// Exceptions in flight belong to the fiber: the C++ runtime keeps them per thread, and a fiber that
// parks inside a catch block, or while it unwinds, may go on elsewhere after others have thrown.
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace exception_state_test {

using namespace std::chrono_literals;
using support::run_each;

constexpr int kFibers = support::rounds(500);

struct Numbered {
  int number;
};

/// Parks in a way that depends on `i`, so that fibers meet in all states.
void park_somehow(int i) {
  if (i % 3 == 0) {
    yield();
  } else {
    sleep_for(std::chrono::microseconds(i % 7 + 1));
  }
}

TEST(ExceptionState, RethrowAfterAParkInsideACatchBlockIsTheSameException) {
  run_each([] {
    TaskGroup group;
    for (int i = 0; i < kFibers; ++i) {
      group.go([i] {
        try {
          throw Numbered{i};
        } catch (const Numbered&) {
          for (int k = 0; k < 4; ++k) park_somehow(i + k);
          try {
            throw;
          } catch (const Numbered& again) {
            EXPECT_EQ(again.number, i);
          }
        }
        EXPECT_EQ(std::current_exception(), nullptr);
      });
    }
    group.wait();
  });
}

TEST(ExceptionState, NestedCatchBlocksSurviveParks) {
  run_each([] {
    TaskGroup group;
    for (int i = 0; i < kFibers; ++i) {
      group.go([i] {
        try {
          throw Numbered{i};
        } catch (const Numbered& outer) {
          park_somehow(i);
          try {
            throw std::runtime_error(std::to_string(i));
          } catch (const std::runtime_error& inner) {
            park_somehow(i + 1);
            EXPECT_EQ(inner.what(), std::to_string(i));
          }
          park_somehow(i + 2);
          EXPECT_EQ(outer.number, i);
          try {
            std::rethrow_exception(std::current_exception());
          } catch (const Numbered& again) {
            EXPECT_EQ(again.number, i);
          }
        }
      });
    }
    group.wait();
  });
}

TEST(ExceptionState, UnwindingSurvivesAParkInADestructor) {
  struct ParksWhileUnwinding {
    explicit ParksWhileUnwinding(int n) : number(n) {}
    ParksWhileUnwinding(const ParksWhileUnwinding&) = delete;
    ParksWhileUnwinding& operator=(const ParksWhileUnwinding&) = delete;
    ~ParksWhileUnwinding() {
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      park_somehow(number);
      try {
        throw Numbered{-1};
      } catch (const Numbered& inner) {
        EXPECT_EQ(inner.number, -1);
        park_somehow(number + 1);
      }
      EXPECT_EQ(std::uncaught_exceptions(), 1);
    }
    int number;
  };
  run_each([] {
    TaskGroup group;
    for (int i = 0; i < kFibers; ++i) {
      group.go([i] {
        EXPECT_EQ(std::uncaught_exceptions(), 0);
        try {
          const ParksWhileUnwinding object(i);
          throw Numbered{i};
        } catch (const Numbered& caught) {
          EXPECT_EQ(caught.number, i);
        }
        EXPECT_EQ(std::uncaught_exceptions(), 0);
      });
    }
    group.wait();
  });
}

TEST(ExceptionState, ANewFiberHasNoExceptionInFlight) {
  run_each([] {
    try {
      throw Numbered{1};
    } catch (const Numbered&) {
      TaskGroup group;
      group.go([] {
        EXPECT_EQ(std::current_exception(), nullptr);
        EXPECT_EQ(std::uncaught_exceptions(), 0);
      });
      group.wait();
      EXPECT_NE(std::current_exception(), nullptr);
    }
  });
}

TEST(ExceptionState, CancellationPassesThroughACatchBlockThatHasParked) {
  run_each([] {
    int cancelled = 0;
    TaskGroup group;
    group.go([&] {
      try {
        throw Numbered{1};
      } catch (const Numbered&) {
        try {
          static_cast<void>(Channel<int>().recv());
        } catch (const Cancelled&) {
          ++cancelled;
          throw;
        }
      }
    });
    support::until_idle();
    group.stop();
    group.wait();
    EXPECT_EQ(cancelled, 1);
  });
}

// A regression: a fiber's record stayed in its memory if another fiber had taken over its stack,
// and the next fiber there began with it.
TEST(ExceptionState, OfAFiberThatEndedIsNotTheNextOnes) {
  struct Parks {
    ~Parks() { sleep_for(1ns); }
  };
  run_each([] {
    for (int round = 0; round < 20; ++round) {
      TaskGroup group;
      const auto has_none = [] { EXPECT_EQ(std::uncaught_exceptions(), 0); };
      group.go([&] {
        try {
          const Parks while_it_unwinds;
          throw Numbered{round};
        } catch (const Numbered&) {
        }
        group.go(has_none);  // on the stack of this fiber, which ends
      });
      group.wait();
      for (int i = 0; i < 3; ++i) {
        group.go([] { yield(); });
        group.go(has_none);
      }
      group.wait();
    }
  });
}

}  // namespace exception_state_test
}  // namespace leat
