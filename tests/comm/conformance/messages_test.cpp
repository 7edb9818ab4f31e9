// Sends and recvs: what meets what, and when a send ends.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "leat/comm/communicator.h"
#include "tests/comm/support/ranks.h"
#include "tests/comm/support/values.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace messages_test {

using support::same_bits;
using support::values;

class Messages : public support::RankTest {
 protected:
  static void send_word(Communicator& me, int to, std::uint64_t key) {
    me.send(std::vector<int>{1}, to, key).await();
  }
  static void recv_word(Communicator& me, int from, std::uint64_t key) {
    std::vector<int> word(1);
    me.recv(word, from, key).await();
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Messages, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

template <class T>
void exchange_of(Communicator& me, std::uint64_t count) {
  const int next = (me.rank() + 1) % me.size();
  const int before = (me.rank() + me.size() - 1) % me.size();
  const std::vector<T> out = values<T>(me.rank(), count);
  std::vector<T> in(count);
  Completion received = me.recv(in, before, count);
  Completion sent = me.send(out, next, count);
  received.await();
  sent.await();
  EXPECT_TRUE(same_bits(in, values<T>(before, count)));
}

TEST_P(Messages, OfEveryTypeAndSizeArriveUnchanged) {
  on_ranks([](Communicator& me) {
    for (const std::uint64_t count : {0U, 1U, 7U, 1000U, 20011U}) {
      exchange_of<float>(me, count);
      exchange_of<double>(me, count);
      exchange_of<std::int32_t>(me, count);
      exchange_of<std::int64_t>(me, count);
      exchange_of<gpu::Float16>(me, count);
      exchange_of<gpu::BFloat16>(me, count);
    }
  });
}

TEST_P(Messages, ASendEndsOnlyOnceItsRecvHasCome) {
  on_ranks(2, [](Communicator& me) {
    for (const std::size_t count : {1U, 100000U}) {
      std::vector<int> data(count, me.rank());
      if (me.rank() == 0) {
        Completion sent = me.send(data, 1, 5);
        EXPECT_FALSE(sent.is_done());
        send_word(me, 1, 6);  // which rank 1 waits for
        recv_word(me, 1, 6);
        EXPECT_FALSE(sent.is_done());
        send_word(me, 1, 7);
        sent.await();
        EXPECT_TRUE(sent.is_done());
      } else {
        recv_word(me, 0, 6);
        send_word(me, 0, 6);
        recv_word(me, 0, 7);
        me.recv(data, 0, 5).await();
        EXPECT_EQ(data, std::vector<int>(count, 0));
      }
    }
  });
}

TEST_P(Messages, ARecvThatWasPostedAheadTakesTheData) {
  on_ranks(2, [](Communicator& me) {
    std::vector<int> data(3, me.rank());
    if (me.rank() == 0) {
      recv_word(me, 1, 0);  // the recv is posted
      me.send(data, 1, 1).await();
    } else {
      Completion received = me.recv(data, 0, 1);
      EXPECT_FALSE(received.is_done());
      send_word(me, 0, 0);
      received.await();
      EXPECT_EQ(data, std::vector<int>(3, 0));
    }
  });
}

TEST_P(Messages, OfOneKeyMeetInOrderAndKeysDoNotWaitForEachOther) {
  on_ranks(2, [](Communicator& me) {
    constexpr int kKeys = 300;
    constexpr int kEach = 3;
    std::vector<std::vector<int>> data;
    std::vector<Completion> all;
    data.reserve(kKeys * kEach);
    for (int i = 0; i < kKeys; ++i) {
      // Ranks take the keys from opposite ends.
      const int key = me.rank() == 0 ? i : kKeys - 1 - i;
      for (int k = 0; k < kEach; ++k) {
        const auto wide_key = static_cast<std::uint64_t>(key) << 40;
        if (me.rank() == 0) {
          data.push_back({key, k});
          all.push_back(me.send(data.back(), 1, wide_key));
        } else {
          data.push_back({-1, -1});
          all.push_back(me.recv(data.back(), 0, wide_key));
        }
      }
    }
    for (Completion& one : all) one.await();
    for (std::size_t i = 0; me.rank() == 1 && i < data.size(); ++i) {
      const int key = kKeys - 1 - static_cast<int>(i) / kEach;
      EXPECT_EQ(data[i], (std::vector<int>{key, static_cast<int>(i) % kEach}));
    }
  });
}

TEST_P(Messages, ARankMaySendToItself) {
  on_ranks([](Communicator& me) {
    const std::vector<int> out = {me.rank(), 7};
    std::vector<int> in(2);
    Completion sent = me.send(out, me.rank(), 3);
    EXPECT_FALSE(sent.is_done());
    me.recv(in, me.rank(), 3).await();
    sent.await();
    EXPECT_EQ(in, out);
  });
}

TEST_P(Messages, AndCollectivesDoNotOrderEachOther) {
  on_ranks(2, [](Communicator& me) {
    std::vector<int> word = {me.rank()};
    if (me.rank() == 0) {
      Completion barrier = me.barrier();
      me.send(word, 1).await();
      barrier.await();
    } else {
      me.recv(word, 0).await();  // before the barrier that rank 0 began first
      me.barrier().await();
      EXPECT_EQ(word[0], 0);
    }
  });
}

}  // namespace messages_test
}  // namespace leat::comm
