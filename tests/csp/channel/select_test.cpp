#include "leat/csp/select.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "leat/csp/task_group.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace select_test {

using namespace std::chrono_literals;
using support::Counted;
using support::elapsed;
using support::run_each;

TEST(Select, WaitsForTheFirstCaseThatBecomesReady) {
  run_each([] {
    Channel<int> a(0);
    Channel<int> b(0);
    TaskGroup group;
    group.go([&] {
      sleep_for(2ms);
      b.send(7);
      EXPECT_EQ(a.recv(), 8);
    });
    int got = 0;
    EXPECT_EQ(select(on_recv(a), on_recv(b, [&](std::optional<int> v) { got = *v; })), 1);
    EXPECT_EQ(got, 7);
    EXPECT_EQ(elapsed(), 2ms);
    EXPECT_EQ(select(on_send(a, 8), on_recv(b)), 0);
    group.wait();
  });
}

TEST(Select, RunsOneHandlerAfterTheCommunication) {
  run_each([] {
    Channel<int> c(1);
    c.send(1);
    int handlers = 0;
    select(on_recv(c,
                   [&](std::optional<int>) {
                     ++handlers;
                     EXPECT_EQ(c.try_send(2),
                               ChannelStatus::ok);  // no lock is held, and the room is free
                   }),
           on_timeout(1h, [&] { handlers += 100; }), otherwise([&] { handlers += 10'000; }));
    EXPECT_EQ(handlers, 1);
    EXPECT_EQ(c.recv(), 2);
  });
}

TEST(Select, PassesOnWhatAHandlerThrows) {
  run_each([] {
    Channel<int> c(1);
    c.send(1);
    EXPECT_THROW(select(on_recv(c, [](std::optional<int>) { throw std::runtime_error("x"); })),
                 std::runtime_error);
    EXPECT_EQ(c.size(), 0U);  // the communication has taken place
  });
}

TEST(Select, OtherwiseIsTakenOnlyIfNothingIsReady) {
  run_each([] {
    Channel<int> c(1);
    EXPECT_EQ(select(on_recv(c), otherwise()), 1);
    c.send(1);
    EXPECT_EQ(select(on_recv(c), otherwise()), 0);
    EXPECT_EQ(select(otherwise()), 0);
    EXPECT_EQ(select(otherwise(), on_send(c, 1)), 1);
    EXPECT_EQ(select(otherwise(), on_send(c, 1)), 0);
    EXPECT_EQ(elapsed(), 0ns);
  });
}

TEST(Select, TimesOutExactlyThatLongAfterTheCall) {
  run_each([] {
    Channel<int> c(0);
    sleep_for(5ms);
    bool timed_out = false;
    EXPECT_EQ(select(on_recv(c), on_timeout(30ms, [&] { timed_out = true; })), 1);
    EXPECT_TRUE(timed_out);
    EXPECT_EQ(elapsed(), 35ms);
    EXPECT_EQ(select(on_timeout(1ms)), 0);
    EXPECT_EQ(elapsed(), 36ms);
    EXPECT_EQ(select(on_timeout(0ms), on_recv(c)), 0);
    EXPECT_EQ(select(on_timeout(-1h), on_recv(c)), 0);
    EXPECT_EQ(elapsed(), 36ms);
  });
}

TEST(Select, TheEarliestOfSeveralTimeoutsCounts) {
  run_each([] {
    Channel<int> c(0);
    EXPECT_EQ(select(on_timeout(5ms), on_recv(c), on_timeout(2ms), on_timeout(3ms)), 2);
    EXPECT_EQ(elapsed(), 2ms);
  });
}

TEST(Select, AReadyCaseWinsOverATimeoutOfZero) {
  run_each([] {
    Channel<int> c(1);
    c.send(1);
    EXPECT_EQ(select(on_timeout(0ms), on_recv(c)), 1);
  });
}

TEST(Select, MovesFromAnRvalueOnlyIfChosen) {
  run_each([] {
    Channel<std::unique_ptr<int>> c(1);
    auto value = std::make_unique<int>(1);
    c.send(nullptr);
    EXPECT_EQ(select(on_send(c, std::move(value)), otherwise()), 1);
    EXPECT_NE(value, nullptr);
    EXPECT_EQ(select(on_send(c, std::move(value)), on_timeout(1ms)), 1);
    EXPECT_NE(value, nullptr);
    static_cast<void>(c.recv());
    EXPECT_EQ(select(on_send(c, std::move(value)), otherwise()), 0);
    EXPECT_EQ(value, nullptr);
    EXPECT_EQ(**c.recv(), 1);
  });
}

// A regression: the case moved from the variable, and the second value was empty.
TEST(Select, CopiesAnLvalueAsSendDoes) {
  run_each([] {
    Channel<std::string> c(2);
    std::string value = "a value that is too long to be kept inside of the string";
    const std::string expected = value;
    EXPECT_EQ(select(on_send(c, value), on_recv(Channel<int>())), 0);
    EXPECT_EQ(select(on_send(c, value)), 0);
    EXPECT_EQ(value, expected);
    EXPECT_EQ(c.recv(), expected);
    EXPECT_EQ(c.recv(), expected);
  });
}

TEST(Select, FreesAnRvalueThatIsNotChosen) {
  run_each([] {
    Channel<Counted> c(1);
    EXPECT_EQ(select(on_send(c, Counted(1)), otherwise()), 0);
    EXPECT_EQ(Counted::live(), 1);
    EXPECT_EQ(select(on_send(c, Counted(2)), otherwise()), 1);
    EXPECT_EQ(Counted::live(), 1);
    EXPECT_EQ(c.recv()->number(), 1);
    EXPECT_EQ(Counted::live(), 0);
  });
}

// A regression: a const lvalue did not compile.
TEST(Select, CopiesAConstLvalueAndConvertsToTheElementType) {
  run_each([] {
    Channel<std::string> c(4);
    const std::string constant = "constant";
    EXPECT_EQ(select(on_send(c, constant)), 0);
    EXPECT_EQ(select(on_send(Sender<std::string>(c), constant)), 0);
    EXPECT_EQ(select(on_send(c, "literal")), 0);
    EXPECT_EQ(select(on_send(Sender<std::string>(c), std::string("rvalue"))), 0);
    EXPECT_EQ(c.recv(), "constant");
    EXPECT_EQ(c.recv(), "constant");
    EXPECT_EQ(c.recv(), "literal");
    EXPECT_EQ(c.recv(), "rvalue");
    EXPECT_EQ(constant, "constant");
  });
}

TEST(Select, WorksOnDirectionalHandlesAndWithoutHandlers) {
  run_each([] {
    Channel<int> c(1);
    const Sender<int> sender = c;
    const Receiver<int> receiver = c;
    EXPECT_EQ(select(on_recv(receiver), on_send(sender, 1)), 1);
    EXPECT_EQ(select(on_recv(receiver), on_send(sender, 1)), 0);
  });
}

TEST(Select, KeepsItsChannelsAlive) {
  run_each([] {
    ASSERT_EQ(Counted::live(), 0);
    TaskGroup group;
    group.go([] {
      EXPECT_EQ(select(on_recv(Channel<Counted>(0)), on_send(Channel<Counted>(0), Counted(1)),
                       on_timeout(1ms)),
                2);
    });
    group.wait();
    EXPECT_EQ(Counted::live(), 0);
  });
}

}  // namespace select_test
}  // namespace leat
