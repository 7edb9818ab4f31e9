// What a step of parameter servers waits for, and what it counts; in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/error.h"
#include "leat/comm/parameter_server.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "tests/comm/support/layers.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace server_steps_test {

using namespace std::chrono_literals;
using leat::support::elapsed;
using support::Layers;

void on_ranks(int ranks, const support::RankBody& body, const OpenOptions& options = {}) {
  support::in_virtual_time(ranks, options, body);
}

void send_and_fetch(ParameterServer& server, std::size_t layer) {
  Completion sent = server.send_vars(layer);
  server.fetch_vars(layer).await();
  sent.await();
}

TEST(ServerSteps, OfServersWithoutPiecesEnd) {
  for (const auto& counts : {std::vector<std::size_t>{}, {0, 0}}) {
    on_ranks(3, [&](Communicator& me) {
      Layers layers(counts);
      ParameterServer server(me, layers.parameters(), {.servers = {2}});
      if (me.rank() == 2) return server.serve();
      for (int step = 0; step < 5; ++step) {
        server.begin_step(1);
        for (std::size_t i = 0; i < counts.size(); ++i) send_and_fetch(server, i);
        server.send_barrier().await();
      }
      EXPECT_EQ(elapsed(), 0s);
    });
  }
}

TEST(ServerSteps, NoWorkerIsTwoStepsAhead) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4});
    ParameterServer server(me, layers.parameters(), {.servers = {2}});
    if (me.rank() == 2) return server.serve();
    std::vector<Completion> barriers;
    for (int step = 0; step < 3; ++step) {
      server.begin_step(1);
      if (me.rank() == 0) {
        EXPECT_EQ(elapsed(), step == 2 ? 1s : 0s) << step;
      }
      if (me.rank() == 1) sleep_for(1s);
      if (me.rank() == 1) send_and_fetch(server, 0);
      barriers.push_back(server.send_barrier());
    }
    for (Completion& one : barriers) one.await();
  });
}

// Worker 0 sends two pieces of step 2 while those of step 1 wait for worker 1.
TEST(ServerSteps, GradientsThatComeEarlyAreOfTheirStep) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4, 4});
    ParameterServer server(me, layers.parameters(), {.servers = {2}, .optimizer = Sgd{1}});
    if (me.rank() == 2) return server.serve();
    std::vector<Completion> barriers;
    std::vector<Completion> fetched;
    std::vector<Completion> sent;
    for (int step = 1; step <= 2; ++step) {
      server.begin_step(1);
      if (me.rank() == 1) sleep_for(1s);
      for (Completion& one : sent) one.await();
      sent.clear();
      for (std::size_t i = 0; i < 2; ++i) {
        layers.gradients[i].assign(4, static_cast<float>(step));
        sent.push_back(server.send_vars(i));
      }
      if (step == 2) {
        for (Completion& one : fetched) one.await();
      }
      for (std::size_t i = 0; i < 2; ++i) fetched.push_back(server.fetch_vars(i));
      barriers.push_back(server.send_barrier());
    }
    for (std::size_t i = 2; i < 4; ++i) fetched[i].await();
    for (Completion& one : barriers) one.await();
    for (Completion& one : sent) one.await();
    for (const std::vector<float>& one : layers.weights) EXPECT_EQ(one, std::vector<float>(4, -3));
    EXPECT_EQ(elapsed(), 2s);
  });
}

// Worker 0's second barrier waits for the end of step 1, which worker 1 does not end.
TEST(ServerSteps, WhoWaitsInABarrierIsToldOfAServerThatLeaves) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4});
    std::optional<ParameterServer> server(std::in_place, me, layers.parameters(),
                                          ServerOptions{.servers = {2}});
    if (me.rank() == 2) {
      sleep_for(1s);
      server.reset();
    } else if (me.rank() == 0) {
      server->begin_step(1);
      Completion first = server->send_barrier();
      server->begin_step(1);
      EXPECT_THROW(server->send_barrier().await(), CommMismatch);
      EXPECT_EQ(elapsed(), 1s);
      first.await();
    } else {
      sleep_for(2s);
    }
  });
}

TEST(ServerSteps, ABoundDoesNotWaitForWhatAWorkerHasNotSent) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4, 4});
    ParameterServer server(me, layers.parameters(),
                           {.servers = {2}, .synchronous = false, .staleness = 2});
    if (me.rank() == 2) return server.serve();
    for (int step = 0; step < 10; ++step) {
      server.begin_step(1);
      send_and_fetch(server, 0);
      if (me.rank() == 1) send_and_fetch(server, 1);
    }
    EXPECT_EQ(elapsed(), 0s);
  });
}

TEST(ServerSteps, ABoundDoesNotWaitForAStepWithoutSamples) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4});
    ParameterServer server(me, layers.parameters(),
                           {.servers = {2}, .synchronous = false, .staleness = 0});
    if (me.rank() == 2) return server.serve();
    server.begin_step(me.rank() == 1 ? 0 : 1);
    if (me.rank() == 0) {
      send_and_fetch(server, 0);  // needs the first step of both
      EXPECT_EQ(elapsed(), 0s);
    }
    sleep_for(1s);
  });
}

TEST(ServerSteps, ABoundWaitsForWhatIsSentLater) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4});
    ParameterServer server(me, layers.parameters(),
                           {.servers = {2}, .synchronous = false, .staleness = 1});
    if (me.rank() == 2) return server.serve();
    for (int step = 0; step < 4; ++step) {
      server.begin_step(1);
      if (me.rank() == 1) sleep_for(1s);
      send_and_fetch(server, 0);
      if (me.rank() == 0) {
        EXPECT_EQ(elapsed(), step * 1s) << step;
      }
    }
  });
}

TEST(ServerSteps, StalenessIsTheUpdatesBetweenAFetchAndItsGradient) {
  on_ranks(3, [](Communicator& me) {
    Layers layers({4});
    ParameterServer server(me, layers.parameters(), {.servers = {2}, .synchronous = false});
    if (me.rank() == 2) {
      server.serve();
      std::vector<std::uint64_t> staleness = server.stats().staleness;
      ASSERT_GE(staleness.size(), 4U);
      staleness.resize(4);
      EXPECT_EQ(staleness, (std::vector<std::uint64_t>{3, 1, 0, 1}));
      return;
    }
    if (me.rank() == 1) sleep_for(1s);  // it has weights from before the other's three updates
    for (int step = 0; step < (me.rank() == 0 ? 3 : 1); ++step) {
      server.begin_step(1);
      send_and_fetch(server, 0);
    }
    if (me.rank() == 1) return;
    sleep_for(2s);
    server.begin_step(1);
    send_and_fetch(server, 0);  // on weights from before the other's
  });
}

TEST(ServerSteps, ServersOwnAsManyBytesButForOnePiece) {
  on_ranks(4, [](Communicator& me) {
    Layers layers({300, 1, 1, 100, 1, 1, 100, 1, 1, 100, 1, 1});  // in turns: all large to one
    ParameterServer server(me, layers.parameters(), {.servers = {1, 2, 3}, .partition_bytes = 400});
    server.serve();
    std::vector<std::int64_t> bytes(4);
    me.all_gather(std::vector{static_cast<std::int64_t>(server.stats().bytes_owned)}, bytes)
        .await();
    EXPECT_EQ(bytes[0], 0);
    EXPECT_EQ(bytes[1] + bytes[2] + bytes[3], 4 * 608);
    const auto [least, most] = std::minmax_element(bytes.begin() + 1, bytes.end());
    EXPECT_LE(*most - *least, 400);
  });
}

TEST(ServerSteps, WeightsThatAreBeingSentDoNotChange) {
  OpenOptions options;
  options.link = {.alpha = 1s, .enabled = true};
  on_ranks(
      3,
      [](Communicator& me) {
        Layers layers({1000});
        ParameterServer server(me, layers.parameters(),
                               {.servers = {2}, .synchronous = false, .optimizer = Sgd{1}});
        if (me.rank() == 2) return server.serve();
        sleep_until(TimePoint(10s));
        if (me.rank() == 0) {
          sleep_for(500ms);
          server.fetch_vars(0).await();  // the other's gradient comes meanwhile
          EXPECT_EQ(layers.weights[0], std::vector<float>(1000, 0));
          server.fetch_vars(0).await();
          EXPECT_EQ(layers.weights[0], std::vector<float>(1000, -2));
        } else {
          server.begin_step(1);
          layers.gradients[0].assign(1000, 2);
          server.send_vars(0).await();
          sleep_for(5s);
        }
      },
      options);
}

TEST(ServerSteps, OptionsThatDifferInTheLastDigitAreAMismatch) {
  on_ranks(2, [](Communicator& me) {
    Layers layers({4});
    const float rate = me.rank() == 0 ? 1e-7F : 1.0000001e-7F;
    EXPECT_THROW(ParameterServer(me, layers.parameters(), {.optimizer = Sgd{rate}}), CommMismatch);
  });
}

TEST(ServerSteps, SamplesOutOfRangeAreRefused) {
  on_ranks(2, [](Communicator& me) {
    Layers layers({4});
    ParameterServer server(me, layers.parameters(), {.servers = {1}});
    if (me.rank() == 1) return server.serve();
    EXPECT_THROW(server.begin_step((std::uint64_t{1} << 48) + 1), std::invalid_argument);
    server.begin_step(0);
    EXPECT_THROW(static_cast<void>(server.send_vars(0)), std::logic_error);
    server.send_barrier().await();
  });
}

}  // namespace server_steps_test
}  // namespace leat::comm
