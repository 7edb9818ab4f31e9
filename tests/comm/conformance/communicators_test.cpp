// Several communicators of one world, and what a rank can do while it waits.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "tests/comm/support/ranks.h"

namespace leat::comm {
namespace communicators_test {

using namespace std::chrono_literals;

class Communicators : public support::RankTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, Communicators, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

int sum_of(Communicator& ranks, int mine) {
  std::vector<int> data = {mine};
  ranks.all_reduce(data).await();
  return data[0];
}

TEST_P(Communicators, SplitGroupsByColorAndOrdersByKey) {
  on_ranks(4, [](Communicator& me) {
    // Ranks 0 and 2, and 1 and 3; the higher rank first.
    std::optional<Communicator> half = me.split(me.rank() % 2, -me.rank());
    ASSERT_TRUE(half.has_value());
    EXPECT_EQ(half->size(), 2);
    EXPECT_EQ(half->rank(), me.rank() < 2 ? 1 : 0);
    EXPECT_EQ(sum_of(*half, me.rank()), me.rank() % 2 == 0 ? 2 : 4);
    EXPECT_EQ(sum_of(me, me.rank()), 6);

    std::vector<int> data = {me.rank()};
    half->broadcast(data, 0).await();
    EXPECT_EQ(data[0], me.rank() % 2 + 2);

    std::optional<Communicator> alone = half->split(half->rank());
    ASSERT_TRUE(alone.has_value());
    EXPECT_EQ(alone->size(), 1);
    EXPECT_EQ(sum_of(*alone, 5), 5);
  });
}

TEST_P(Communicators, EqualKeysKeepTheOrderOfRanks) {
  on_ranks(3, [](Communicator& me) {
    const std::optional<Communicator> all = me.split(7);
    ASSERT_TRUE(all.has_value());
    EXPECT_EQ(all->rank(), me.rank());
    EXPECT_EQ(all->size(), 3);
  });
}

TEST_P(Communicators, ANegativeColorGetsNone) {
  on_ranks(3, [](Communicator& me) {
    std::optional<Communicator> two = me.split(me.rank() == 1 ? -1 : 0);
    EXPECT_EQ(two.has_value(), me.rank() != 1);
    if (two.has_value()) {
      EXPECT_EQ(sum_of(*two, me.rank()), 2);
    }
  });
}

TEST_P(Communicators, DoNotOrderEachOther) {
  on_ranks(2, [](Communicator& me) {
    Communicator other = me.duplicate();
    Communicator& first = me.rank() == 0 ? me : other;
    Communicator& second = me.rank() == 0 ? other : me;
    for (int i = 0; i < 20; ++i) {
      Completion begun = first.barrier();
      second.barrier().await();
      begun.await();
    }
    // Of one key, the message of the other communicator is another one.
    std::vector<int> mine = {1};
    std::vector<int> others = {2};
    if (me.rank() == 0) {
      Completion a = me.send(mine, 1);
      other.send(others, 1).await();
      a.await();
    } else {
      std::vector<int> word(1);
      other.recv(word, 0).await();
      EXPECT_EQ(word, others);
      me.recv(word, 0).await();
      EXPECT_EQ(word, mine);
    }
  });
}

TEST_P(Communicators, OneMayEndWhileAnotherGoesOn) {
  on_ranks(3, [](Communicator& me) {
    for (int i = 0; i < 10; ++i) {
      Communicator other = me.duplicate();
      EXPECT_EQ(sum_of(other, 1), 3);
    }
    EXPECT_EQ(sum_of(me, 1), 3);
  });
}

TEST_P(Communicators, ASelectWaitsForTheFirstOperationThatEnds) {
  on_ranks(2, [](Communicator& me) {
    std::vector<int> data = {me.rank()};
    if (me.rank() == 1) {
      me.recv(data, 0, 2).await();
      me.send(data, 0, 1).await();
      me.barrier().await();
      return;
    }
    std::vector<int> in(1);
    Completion received = me.recv(in, 1, 1);
    Completion barrier = me.barrier();
    const Channel<int> silence(0);
    EXPECT_EQ(select(on_done(received), on_done(barrier), on_recv(silence), otherwise()), 3);
    me.send(data, 1, 2).await();
    bool handled = false;
    for (;;) {
      if (select(on_done(received, [&] { handled = true; }), on_done(barrier)) == 0) break;
    }
    EXPECT_TRUE(handled);
    EXPECT_TRUE(received.is_done());
    EXPECT_EQ(select(on_done(received)), 0);  // stays ready
    received.await();
    barrier.await();
  });
}

TEST_P(Communicators, AWaitThatTimesOutChangesNothing) {
  on_ranks(2, [](Communicator& me) {
    std::vector<int> data = {me.rank() + 1};
    if (me.rank() == 1) {
      std::vector<int> word(1);
      me.recv(word, 0).await();  // rank 0 has waited in vain
      me.all_reduce(data).await();
    } else {
      Completion sum = me.all_reduce(data);
      EXPECT_FALSE(sum.await_until(now()));
      EXPECT_FALSE(sum.await_until(from_now(1ms)));
      EXPECT_FALSE(sum.is_done());
      EXPECT_EQ(data[0], 1);
      me.send(std::vector<int>{1}, 1).await();
      EXPECT_TRUE(sum.await_until(from_now(1h)));
      EXPECT_TRUE(sum.await_until(now()));
    }
    EXPECT_EQ(data[0], 3);
  });
}

TEST_P(Communicators, WhatARankBeganBeforeItLeftStillEnds) {
  on_ranks(2, [](Communicator& me) {
    Communicator other = me.duplicate();
    std::vector<int> sum = {1};
    Completion last = other.all_reduce(sum);
    if (me.rank() == 0) {
      const Communicator gone = std::move(other);
    }
    last.await();
    EXPECT_EQ(sum[0], 2);
    me.barrier().await();
  });
}

TEST_P(Communicators, WhatOneRankDidWrongItIsToldAtOnceAndNothingHasHappened) {
  on_ranks(3, [](Communicator& me) {
    std::vector<int> data(4);
    std::vector<int> wrong(7);
    std::vector<float> other(4);
    const auto refused = [](const auto& call) {
      EXPECT_THROW(static_cast<void>(call()), std::invalid_argument);
    };
    refused([&] { return me.send(data, -1); });
    refused([&] { return me.send(data, 3); });
    refused([&] { return me.recv(data, 3); });
    refused([&] { return me.broadcast(data, -1); });
    refused([&] { return me.broadcast(data, 3); });
    refused([&] { return me.all_reduce(data, wrong); });
    refused([&] { return me.all_reduce(data, other); });
    refused([&] { return me.reduce_scatter(data, wrong); });
    refused([&] { return me.all_gather(wrong, data); });
    data.assign(4, 1);
    me.all_reduce(data).await();
    EXPECT_EQ(data, std::vector<int>(4, 3));
  });
}

}  // namespace communicators_test
}  // namespace leat::comm
