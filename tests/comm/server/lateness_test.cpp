// Ranks of a ParameterServer that are late or have left, in virtual time: who waits is told at the
// exact instant. All ranks of a process fail together.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "leat/comm/parameter_server.h"
#include "leat/csp/scheduler.h"
#include "tests/comm/support/layers.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/run.h"
#include "tests/support/texts.h"

namespace leat::comm {
namespace server_lateness_test {

using namespace std::chrono_literals;
using leat::support::elapsed;
using support::Layers;

constexpr Duration kDeadline = 10s;

void on_ranks(int ranks, const support::RankBody& body) {
  support::in_virtual_time(ranks, {.deadline = kDeadline}, body);
}

template <class Error>
void expect_error(const std::function<void()>& f, int peer,
                  std::initializer_list<std::string_view> parts) {
  try {
    f();
    ADD_FAILURE() << "no error";
  } catch (const CommError& error) {
    EXPECT_EQ(dynamic_cast<const CommMismatch*>(&error) != nullptr,
              (std::is_same_v<Error, CommMismatch>))
        << error.what();
    EXPECT_EQ(error.peer(), peer) << error.what();
    leat::support::expect_contains(error.what(), parts);
  }
}

/// A step of all layers, which is awaited.
void train(ParameterServer& server, bool synchronous = true) {
  server.begin_step(1);
  std::vector<Completion> open;
  for (std::size_t i = server.size(); i-- > 0;) {
    open.push_back(server.send_vars(i));
    open.push_back(server.fetch_vars(i));
  }
  if (synchronous) open.push_back(server.send_barrier());
  for (Completion& one : open) one.await();
}

TEST(ServerLateness, WhoWaitsIsToldOfAWorkerThatSendsNothingAtTheDeadline) {
  on_ranks(4, [](Communicator& me) {
    Layers layers({4, 4});
    ParameterServer server(me, layers.parameters(), {.servers = {3}});
    if (me.rank() == 3) {
      expect_error<CommError>([&] { server.serve(); }, 1, {"layer 1", "rank 1", "deadline"});
      EXPECT_EQ(elapsed(), 2s + kDeadline);
      return;
    }
    train(server);
    EXPECT_EQ(elapsed(), 0s);
    if (me.rank() == 1) {
      sleep_until(TimePoint(1h));
      EXPECT_THROW(server.begin_step(1), CommError);
      return;
    }
    sleep_for(me.rank() == 0 ? 3s : 2s);  // the first to wait counts
    server.begin_step(1);
    Completion sent = server.send_vars(1);
    Completion fetched = server.fetch_vars(1);
    sent.await();  // that does not wait for other workers
    expect_error<CommError>([&] { fetched.await(); }, 1, {"layer 1", "rank 1", "deadline"});
    EXPECT_EQ(elapsed(), 2s + kDeadline);
    EXPECT_THROW(static_cast<void>(server.send_vars(0)), CommError);
  });
}

TEST(ServerLateness, AWorkerThatIsLateWithinTheDeadlineIsWaitedFor) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4, 4});
    ParameterServer server(me, layers.parameters(), {.servers = {2}});
    if (me.rank() == 2) return server.serve();
    for (int step = 0; step < 3; ++step) {
      if (me.rank() == 1) sleep_for(kDeadline - 1ns);
      train(server);
    }
    EXPECT_EQ(elapsed(), 3 * (kDeadline - 1ns));
  });
}

// A fetch that has ended does not count for a later one of the same layer.
TEST(ServerLateness, TheDeadlineOfAFetchBeginsWithIt) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4, 4});
    ParameterServer server(me, layers.parameters(), {.servers = {2}});
    if (me.rank() == 2) return server.serve();
    server.begin_step(1);
    if (me.rank() == 0) {
      server.send_vars(1).await();
      Completion first = server.fetch_vars(1);  // waits until 9 s
      sleep_for(1s);
      server.fetch_vars(0).await();  // as it was before
      sleep_for(7s);
      server.send_vars(0).await();
      Completion second = server.fetch_vars(0);  // waits from 8 s to 12 s
      first.await();
      EXPECT_EQ(elapsed(), 9s);
      second.await();
    } else {
      sleep_for(9s);
      server.send_vars(1).await();
      sleep_for(3s);
      server.send_vars(0).await();
    }
    EXPECT_EQ(elapsed(), 12s);
    server.send_barrier().await();
  });
}

// Worker 0 sends nothing, so it waits in no fetch: its second barrier does.
TEST(ServerLateness, WhoWaitsInABarrierIsToldWhoIsMissing) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4, 4});
    ParameterServer server(me, layers.parameters(), {.servers = {2}});
    if (me.rank() == 2) {
      EXPECT_THROW(server.serve(), CommError);
      return;
    }
    server.begin_step(me.rank() == 1 ? 1 : 0);
    if (me.rank() == 1) {
      server.send_vars(0).await();
      sleep_until(TimePoint(1h));
      EXPECT_THROW(static_cast<void>(server.send_vars(1)), CommError);
      return;
    }
    server.send_barrier().await();
    EXPECT_EQ(elapsed(), 0s);
    server.begin_step(0);
    expect_error<CommError>([&] { server.send_barrier().await(); }, 1,
                            {"barrier", "rank 1", "deadline"});
    EXPECT_EQ(elapsed(), kDeadline);
  });
}

TEST(ServerLateness, AServerThatNeverComesIsTheConstructorsDeadline) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4});
    if (me.rank() == 2) return sleep_until(TimePoint(1h));
    expect_error<CommError>(
        [&] { const ParameterServer server(me, layers.parameters(), {.servers = {2}}); }, 2,
        {"rank 2"});
    EXPECT_EQ(elapsed(), kDeadline);
  });
}

TEST(ServerLateness, AWorkerThatLeavesIsAMismatchForWhoWaitsAtOnce) {
  on_ranks(4, [](Communicator& me) {
    Layers layers({4, 4});
    ParameterServer server(me, layers.parameters(), {.servers = {3}});
    if (me.rank() == 3) {
      EXPECT_THROW(server.serve(), CommMismatch);
      return;
    }
    train(server);
    if (me.rank() == 1) return sleep_for(2s);
    server.begin_step(1);
    if (me.rank() == 0) {  // is missing, too, but not at fault
      sleep_for(5s);
      EXPECT_THROW(static_cast<void>(server.send_vars(1)), CommMismatch);
      return;
    }
    server.send_vars(1).await();
    expect_error<CommMismatch>([&] { server.fetch_vars(1).await(); }, 1,
                               {"layer 1", "rank 1 has left"});
    EXPECT_EQ(elapsed(), 2s);
  });
}

TEST(ServerLateness, AServerThatLeavesIsAMismatchForWhoWaitsAtOnce) {
  for (const bool waits_in_fetch : {true, false}) {
    on_ranks(4, [waits_in_fetch](Communicator& me) {
      Layers layers({4, 4});
      ParameterServer server(me, layers.parameters(), {.servers = {3}});
      if (me.rank() == 3) return sleep_for(2s);
      if (me.rank() == 2) return sleep_for(3s);  // waits for nothing
      server.begin_step(1);
      if (waits_in_fetch) {
        server.send_vars(1).await();
        expect_error<CommMismatch>([&] { server.fetch_vars(1).await(); }, 3,
                                   {"layer 1", "rank 3 has left"});
        EXPECT_EQ(elapsed(), 2s);
      } else {
        sleep_for(2s + 1ns);
        expect_error<CommMismatch>([&] { server.fetch_vars(0).await(); }, 3,
                                   {"layer 0", "rank 3 has left"});
        EXPECT_EQ(elapsed(), 2s + 1ns);
      }
    });
  }
}

TEST(ServerLateness, WithABoundWhoWaitsIsToldWhoIsMissing) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4});
    ParameterServer server(me, layers.parameters(),
                           {.servers = {2}, .synchronous = false, .staleness = 2});
    if (me.rank() == 2) {
      EXPECT_THROW(server.serve(), CommError);
      EXPECT_EQ(elapsed(), kDeadline);
      return;
    }
    train(server, false);
    if (me.rank() == 1) return sleep_until(TimePoint(1h));
    train(server, false);
    train(server, false);  // 2 steps ahead
    server.begin_step(1);
    server.send_vars(0).await();
    expect_error<CommError>([&] { server.fetch_vars(0).await(); }, 1,
                            {"layer 0", "rank 1", "deadline"});
    EXPECT_EQ(elapsed(), kDeadline);
  });
}

TEST(ServerLateness, ServingWaitsForAWorkerThatIsBusyWhileOthersHaveLeft) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4});
    ParameterServer server(me, layers.parameters(), {.servers = {2}, .synchronous = false});
    if (me.rank() == 2) {
      server.serve();
      EXPECT_EQ(elapsed(), 1h);
      return;
    }
    if (me.rank() == 0) return sleep_for(5s);
    sleep_for(1h);
    train(server, false);
  });
}

TEST(ServerLateness, ServingWaitsForAsLongAsAllWorkersStay) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4});
    ParameterServer server(me, layers.parameters(), {.servers = {2}});
    if (me.rank() == 2) {
      server.serve();
      server.serve();  // at once
      EXPECT_EQ(elapsed(), 1h);
      return;
    }
    sleep_for(1h);
    server.serve();
    EXPECT_EQ(elapsed(), 1h) << "a rank that does not serve waits for nobody";
    EXPECT_THROW(server.begin_step(1), std::logic_error);
  });
}

TEST(ServerLateness, ServersThatOwnNothingServeUntilTheWorkersLeave) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{0}}) {
    on_ranks(4, [count](Communicator& me) {
      Layers layers({count});
      ParameterServer server(me, layers.parameters(), {.servers = {1, 2, 3}});
      if (me.rank() > 0) {
        server.serve();
        EXPECT_EQ(elapsed(), 1s);
        return;
      }
      train(server);
      sleep_for(1s);
    });
  }
}

// Worker 0 has nothing in step 1, and is in step 2 before worker 1 has sent for step 1.
TEST(ServerLateness, AGradientOfTheNextStepIsNotOfThisOne) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4});
    ParameterServer server(me, layers.parameters(), {.servers = {2}, .optimizer = Sgd{1}});
    if (me.rank() == 2) return server.serve();
    const auto step = [&](float gradient) {
      server.begin_step(1);
      layers.gradients[0].assign(4, gradient);
      server.send_vars(0).await();
      Completion ended = server.send_barrier();
      server.fetch_vars(0).await();
      ended.await();
    };
    if (me.rank() == 0) {
      server.begin_step(3);
      server.send_barrier().await();
      step(1);
      EXPECT_EQ(elapsed(), 2s);
    } else {
      sleep_for(1s);
      step(4);
      EXPECT_EQ(layers.weights[0], std::vector<float>(4, -1)) << "3 samples have none";
      sleep_for(1s);
      step(2);
    }
    EXPECT_EQ(layers.weights[0], std::vector<float>(4, -2.5));
  });
}

}  // namespace server_lateness_test
}  // namespace leat::comm
