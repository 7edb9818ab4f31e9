// Who is to blame for a wait that is too long: the end of the chain of waits.
#include "leat/comm/transports/blame.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/comm/parameter_server.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "tests/comm/support/layers.h"
#include "tests/comm/support/ranks.h"

namespace leat::comm {
namespace blame_test {

using namespace std::chrono_literals;

/// For whom each rank waits; a rank that is missing here does not answer.
using Waits = std::map<int, std::vector<int>>;

Verdict blame(const Waits& waits, std::vector<int> missing) {
  std::vector<Wait> first;
  for (const int rank : missing) first.push_back({.rank = rank});
  return find_blame(first, [&](std::span<const Wait> asked) {
    std::vector<std::optional<Answer>> answers;
    for (const Wait& one : asked) {
      std::optional<Answer>& answer = answers.emplace_back();
      const auto known = waits.find(one.rank);
      if (known == waits.end()) continue;
      answer.emplace(Answer{.waits = !known->second.empty()});
      for (const int rank : known->second) answer->whom.push_back({.rank = rank});
    }
    return answers;
  });
}

void expect_blame(const Waits& waits, std::vector<int> missing, int peer, const std::string& text) {
  const Verdict verdict = blame(waits, std::move(missing));
  EXPECT_EQ(verdict.peer, peer) << verdict.text;
  EXPECT_EQ(verdict.text, text);
}

TEST(Blame, IsOfTheEndOfTheChain) {
  expect_blame({}, {3}, 3, "; rank 3 does not answer: it is stopped or dead");
  expect_blame({{3, {}}}, {3}, 3, "; rank 3 lives, and has not called");
  expect_blame({{3, {2}}, {2, {}}}, {3}, 2,
               "; rank 3 waits for rank 2, which lives, and has not called");
  expect_blame({{3, {2}}, {2, {1}}, {1, {0}}}, {3}, 0,
               "; rank 3 waits for rank 2, which waits for rank 1, which waits for rank 0, which "
               "does not answer: it is stopped or dead");
}

TEST(Blame, IsRatherOfARankThatDoesNotAnswer) {
  expect_blame({{1, {}}, {2, {}}}, {1, 2, 3}, 3, "; rank 3 does not answer: it is stopped or dead");
  expect_blame({{1, {}}, {2, {3, 4}}, {3, {}}}, {1, 2}, 4,
               "; rank 2 waits for rank 4, which does not answer: it is stopped or dead");
}

TEST(Blame, IsOfNobodyWhereAllWaitForOneAnother) {
  expect_blame({{1, {2}}, {2, {0}}, {0, {1}}}, {1}, -1, "; ranks 0 to 2 wait, too");
  expect_blame({{1, {1}}}, {1}, -1, "; rank 1 waits, too");
  expect_blame({}, {}, -1, "");
}

// ---- "local", in virtual time

constexpr Duration kDeadline = 10s;

/// Every rank that fails blames `peer`; the first at the deadline after a rank has begun to wait,
/// which happens within 3 s.
void expect_blamed(int ranks, int peer, const support::RankBody& body) {
  std::atomic<int> failed = 0;
  support::in_virtual_time(ranks, {.deadline = kDeadline}, [&](Communicator& me) {
    try {
      body(me);
    } catch (const CommError& error) {
      EXPECT_EQ(error.peer(), peer) << error.what();
      if (failed++ > 0) return;  // perhaps by a later call
      EXPECT_GE(now(), TimePoint(kDeadline));
      EXPECT_LE(now(), TimePoint(kDeadline + 3s));
    }
  });
  EXPECT_GT(failed, 0);
}

void receive(Communicator& me, int from) {
  float value = 0;
  me.recv(std::span(&value, 1), from).await();
}

TEST(BlameLocal, FollowsMessages) {
  expect_blamed(4, 0, [](Communicator& me) {
    if (me.rank() == 0) return sleep_for(1h);
    sleep_for(1s * (4 - me.rank()));  // the last one waits longest
    receive(me, me.rank() - 1);
  });
  expect_blamed(3, -1, [](Communicator& me) { receive(me, (me.rank() + 1) % 3); });
}

TEST(BlameLocal, ARankThatHasBegunAndComputesIsLateItself) {
  expect_blamed(3, 1, [](Communicator& me) {
    if (me.rank() == 0) return sleep_for(1h);
    float value = 0;
    if (me.rank() == 2) return receive(me, 1);
    sleep_for(1s);
    Completion begun = me.recv(std::span(&value, 1), 0);
    sleep_for(1h);
    begun.await();
  });
  expect_blamed(3, 0, [](Communicator& me) {  // in select it waits
    if (me.rank() == 0) return sleep_for(1h);
    float value = 0;
    if (me.rank() == 2) return receive(me, 1);
    sleep_for(1s);
    Completion begun = me.recv(std::span(&value, 1), 0);
    select(on_done(begun));
  });
}

TEST(BlameLocal, FollowsCollectivesOfSomeRanks) {
  expect_blamed(4, 3, [](Communicator& me) {
    const std::optional<Communicator> pair = me.split(me.rank() / 2, 0);
    if (me.rank() == 0) return receive(me, 1);
    if (me.rank() == 1) return receive(me, 2);
    if (me.rank() == 3) return sleep_for(1h);
    pair->barrier().await();
  });
}

// Rank `idle` computes, `waits` receives from that rank, all others train.
void train_without(int waits, int idle) {
  SCOPED_TRACE(waits);
  expect_blamed(4, idle, [&](Communicator& me) {
    float data = 1;
    GradientExchange exchange(me, {{"w", gpu::DeviceSpan(&data, 4)}});
    exchange.begin_step(1);
    if (me.rank() == idle) {
      if (idle == 3) exchange.ready(0);
      return sleep_for(1h);
    }
    if (me.rank() == waits) receive(me, idle);
    exchange.ready(0);
    exchange.await(0);
  });
}

TEST(BlameLocal, FollowsAnExchange) {
  train_without(1, 2);
  train_without(1, 3);
  train_without(0, 3);  // the leader waits
  train_without(1, 0);  // the leader computes
}

// Rank 3 finds out before the leader does, which computes.
TEST(BlameLocal, FollowsAnExchangeWhoseLeaderComputes) {
  expect_blamed(4, 1, [&](Communicator& me) {
    float data = 1;
    const std::optional<Communicator> three = me.split(me.rank() < 3 ? 0 : -1, 0);
    if (me.rank() == 3) return receive(me, 2);
    GradientExchange exchange(*three, {{"w", gpu::DeviceSpan(&data, 4)}});
    exchange.begin_step(1);
    sleep_for(me.rank() == 1 ? 1h : 1s);
    exchange.ready(0);
    if (me.rank() == 0) sleep_for(1h);
    exchange.await(0);
  });
}

TEST(BlameLocal, FollowsServers) {
  for (const bool synchronous : {true, false}) {
    expect_blamed(4, 2, [&](Communicator& me) {
      support::Layers layers({4, 4});
      ServerOptions options{.servers = {3}, .workers = {0, 1}, .synchronous = synchronous};
      if (!synchronous) options.staleness = 0;
      ParameterServer server(me, layers.parameters(), options);
      if (me.rank() == 2) return sleep_for(1h);
      if (me.rank() == 3) return sleep_for(1h);  // its fiber serves
      server.begin_step(1);
      if (me.rank() == 1) sleep_for(1s);  // rank 0 finds out first
      if (me.rank() == 1) receive(me, 2);
      server.send_vars(0).await();
      server.fetch_vars(0).await();
    });
  }
}

TEST(BlameLocal, AServerThatServesWaitsForItsWorkers) {
  expect_blamed(3, 1, [](Communicator& me) {
    support::Layers layers({4});
    ParameterServer server(me, layers.parameters(), {.servers = {2}});
    if (me.rank() == 2) {
      server.serve();
    } else if (me.rank() == 0) {
      server.serve();
      receive(me, 2);
    } else {
      sleep_for(1h);
    }
  });
}

}  // namespace blame_test
}  // namespace leat::comm
