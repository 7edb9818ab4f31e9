// Ranks that call different things, or go: an error on every rank, at once, and then for ever. Each
// test ends its world.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/parameter_server.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/texts.h"

namespace leat::comm {
namespace failures_test {

class Failures : public support::RankTest {
 protected:
  /// Runs `ranks` ranks; call(me) must end in an E with all of `parts` on each of them. Afterwards
  /// each call says the same, at once.
  template <class E = CommMismatch>
  static void expect_on_every_rank(int ranks, const std::function<void(Communicator&)>& call,
                                   const std::vector<std::string_view>& parts) {
    on_ranks(ranks, [&](Communicator& me) {
      std::string text;
      try {
        call(me);
        ADD_FAILURE() << "rank " << me.rank() << " had no error";
        return;
      } catch (const E& error) {
        text = error.what();
        EXPECT_EQ(error.rank(), me.rank());
      }
      leat::support::expect_contains(text, parts);
      leat::support::expect_begins(text, "leat: rank " + std::to_string(me.rank()) + ": ");
      std::vector<int> data(4);
      std::vector<int> chunk(chunk_of(4, me.rank(), me.size()).second -
                             chunk_of(4, me.rank(), me.size()).first);
      const auto fails = [&](const std::function<Completion()>& again) {
        EXPECT_EQ(leat::support::text_of<E>([&] { again().await(); }), text);
      };
      fails([&] { return me.barrier(); });
      fails([&] { return me.all_reduce(data); });
      fails([&] { return me.reduce_scatter(data, chunk); });
      fails([&] { return me.all_gather(chunk, data); });
      fails([&] { return me.broadcast(data, 0); });
      fails([&] { return me.send(data, 0); });
      fails([&] { return me.recv(data, 0); });
      EXPECT_THROW(static_cast<void>(me.split(0)), E);
      EXPECT_THROW(static_cast<void>(me.duplicate()), E);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Failures, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

TEST_P(Failures, ADifferentOperationIsAMismatch) {
  expect_on_every_rank(3,
                       [](Communicator& me) {
                         me.barrier().await();
                         std::vector<float> data(5);
                         (me.rank() == 1 ? me.barrier() : me.all_reduce(data)).await();
                       },
                       {"rank 1: barrier (number 1)", "all_reduce of 5 float32 (number 1)"});
}

TEST_P(Failures, ADifferentTypeIsAMismatch) {
  expect_on_every_rank(
      2,
      [](Communicator& me) {
        std::vector<float> data(5);
        std::vector<int> other(5);
        (me.rank() == 1 ? me.all_reduce(other) : me.all_reduce(data)).await();
      },
      {"rank 0: all_reduce of 5 float32 (number 0)", "rank 1: all_reduce of 5 int32 (number 0)"});
}

TEST_P(Failures, ADifferentCountIsAMismatch) {
  expect_on_every_rank(3,
                       [](Communicator& me) {
                         std::vector<float> data(me.rank() == 2 ? 100'001 : 100'000);
                         me.all_reduce(data).await();
                       },
                       {"100000 float32", "rank 2: all_reduce of 100001 float32 (number 0)"});
}

TEST_P(Failures, ADifferentRootIsAMismatch) {
  expect_on_every_rank(
      3,
      [](Communicator& me) {
        std::vector<float> data(5);
        me.broadcast(data, me.rank() == 0 ? 0 : 1).await();
      },
      {"rank 0: broadcast of 5 float32 from rank 0 (number 0)", "from rank 1 (number 0)"});
}

TEST_P(Failures, ADifferentReductionIsAMismatch) {
  expect_on_every_rank(
      2,
      [](Communicator& me) {
        std::vector<float> data(5);
        me.all_reduce(data, me.rank() == 0 ? Reduction::kMax : Reduction::kSum).await();
      },
      {"rank 0: all_reduce (max) of 5 float32", "rank 1: all_reduce of 5 float32"});
}

TEST_P(Failures, ASwappedOrderIsAMismatch) {
  expect_on_every_rank(
      2,
      [](Communicator& me) {
        std::vector<float> a(5);
        std::vector<float> b(6);
        Completion first = me.all_reduce(me.rank() == 0 ? a : b);
        Completion second = me.all_reduce(me.rank() == 0 ? b : a);
        first.await();
        second.await();
      },
      {"rank 0: all_reduce of 5 float32 (number 0)", "rank 1: all_reduce of 6 float32 (number 0)"});
}

TEST_P(Failures, WhatDidNotComeYetIsNamed) {
  expect_on_every_rank(3,
                       [](Communicator& me) {
                         if (me.rank() == 2) {  // waits for what does not come
                           std::vector<int> word(1);
                           me.recv(word, 0).await();
                         }
                         std::vector<float> data(5);
                         (me.rank() == 1 ? me.barrier() : me.all_reduce(data)).await();
                       },
                       {"rank 0: all_reduce of 5 float32 (number 0)", "rank 1: barrier (number 0)",
                        "rank 2: nothing yet"});
}

TEST_P(Failures, AMessageOfAnotherCountIsAMismatch) {
  expect_on_every_rank(2,
                       [](Communicator& me) {
                         std::vector<float> data(me.rank() == 0 ? 5 : 6);
                         (me.rank() == 0 ? me.send(data, 1, 3) : me.recv(data, 0, 3)).await();
                       },
                       {"rank 0: send of 5 float32 (key 3)", "rank 1: recv of 6 float32 (key 3)"});
}

TEST_P(Failures, AMessageOfAnotherTypeIsAMismatch) {
  expect_on_every_rank(2,
                       [](Communicator& me) {
                         std::vector<float> data(5);
                         std::vector<double> other(5);
                         (me.rank() == 0 ? me.send(data, 1) : me.recv(other, 0)).await();
                       },
                       {"send of 5 float32", "recv of 5 float64"});
}

TEST_P(Failures, ARankThatLeavesWhileOthersWaitIsAMismatch) {
  on_ranks(3, [](Communicator& me) {
    if (me.rank() == 1) {
      std::vector<int> word(1);
      me.recv(word, 0).await();  // rank 0 waits in the barrier, or will
      const Communicator gone = std::move(me);
      return;
    }
    const auto wait = [&] {
      Completion barrier = me.barrier();
      const std::vector<int> word(1);
      if (me.rank() == 0) me.send(word, 1).await();
      barrier.await();
    };
    leat::support::expect_throws<CommMismatch>(wait, {"barrier (number 0)", "rank 1: has left"});
  });
}

TEST_P(Failures, AMessageToARankThatLeavesIsAMismatch) {
  on_ranks(2, [](Communicator& me) {
    if (me.rank() == 1) {
      me.barrier().await();
      const Communicator gone = std::move(me);
      return;
    }
    std::vector<int> word(1);
    Completion received = me.recv(word, 1, 9);
    me.barrier().await();
    leat::support::expect_throws<CommMismatch>([&] { received.await(); },
                                               {"recv of 1 int32 (key 9)", "rank 1: has left"});
  });
}

TEST_P(Failures, ACallOnWhatAMemberHasLeftIsAMismatch) {
  expect_on_every_rank(3,
                       [](Communicator& me) {
                         Communicator other = me.duplicate();
                         if (me.rank() == 1) {
                           const Communicator gone = std::move(other);
                         }
                         me.barrier().await();
                         (me.rank() == 1 ? me.barrier() : other.barrier()).await();
                       },
                       {"barrier (number 0)", "rank 1: has left"});
}

TEST_P(Failures, AnAbortIsAnErrorOnEveryRank) {
  expect_on_every_rank<CommError>(3,
                                  [](Communicator& me) {
                                    if (me.rank() == 1) me.abort("the disk is full");
                                    me.barrier().await();
                                  },
                                  {"rank 1 aborted: the disk is full"});
}

TEST_P(Failures, AnOperationThatIsGivenUpIsAnErrorOnEveryRank) {
  expect_on_every_rank<CommError>(3,
                                  [](Communicator& me) {
                                    std::vector<float> data(5);
                                    if (me.rank() == 1) static_cast<void>(me.recv(data, 0));
                                    me.all_reduce(data).await();
                                  },
                                  {"rank 1 gave up recv of 5 float32"});
}

TEST_P(Failures, OtherShapesOnAParameterServerAreAMismatch) {
  expect_on_every_rank(3,
                       [](Communicator& me) {
                         std::vector<float> data(me.rank() == 2 ? 9 : 8);
                         const gpu::DeviceSpan span(data.data(), data.size() * sizeof(float));
                         const ParameterServer server(
                             me, {{.name = "layer 1", .weights = span, .gradient = span}},
                             {.servers = {2}});
                       },
                       {"\"layer 1\"", "8 elements on rank 0", "9 elements on rank 2"});
}

}  // namespace failures_test
}  // namespace leat::comm
