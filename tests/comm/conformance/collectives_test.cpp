// What collectives compute: the same bits on every rank, those of the test's own loop.
#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "leat/comm/communicator.h"
#include "tests/comm/support/ranks.h"
#include "tests/comm/support/values.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace collectives_test {

using support::all_combined;
using support::same_bits;
using support::values;

class Collectives : public support::RankTest {
 protected:
  /// Calls f(T{}, count) for every type and for counts around the number of ranks.
  template <class F>
  static void for_each_case(int ranks, const F& f) {
    const auto n = static_cast<std::uint64_t>(ranks);
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, n - 1, n, n + 1,
                                      std::uint64_t{31}, std::uint64_t{997}}) {
      std::apply(
          [&](auto... types) { (f(types, count), ...); },
          std::tuple<float, double, std::int32_t, std::int64_t, gpu::Float16, gpu::BFloat16>());
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kMax};

TEST_P(Collectives, AllReduceHasTheBitsOfASumFromRank0Up) {
  on_ranks([](Communicator& me) {
    for_each_case(me.size(), [&]<class T>(T, std::uint64_t count) {
      for (const Reduction reduction : kReductions) {
        const std::vector<T> expected = all_combined<T>(me.size(), count, reduction);
        const std::vector<T> in = values<T>(me.rank(), count);
        std::vector<T> out(count);
        me.all_reduce(in, out, reduction).await();
        EXPECT_TRUE(same_bits(out, expected)) << count << ' ' << gpu::to_string(gpu::kDTypeOf<T>);
        EXPECT_TRUE(same_bits(in, values<T>(me.rank(), count)));
        out = in;
        me.all_reduce(out, reduction).await();
        EXPECT_TRUE(same_bits(out, expected)) << "in place";
      }
    });
  });
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsChunk) {
  on_ranks([](Communicator& me) {
    for_each_case(me.size(), [&]<class T>(T, std::uint64_t count) {
      const auto [first, second] = chunk_of(count, me.rank(), me.size());
      for (const Reduction reduction : kReductions) {
        const std::vector<T> expected =
            all_combined<T>(me.size(), second - first, reduction, first);
        std::vector<T> in = values<T>(me.rank(), count);
        std::vector<T> out(second - first);
        me.reduce_scatter(in, out, reduction).await();
        EXPECT_TRUE(same_bits(out, expected)) << count << ' ' << gpu::to_string(gpu::kDTypeOf<T>);
        EXPECT_TRUE(same_bits(in, values<T>(me.rank(), count)));
        // In place: the chunk is where it is in the input.
        const Elements chunk(in.data() + first, second - first, gpu::kDTypeOf<T>);
        me.reduce_scatter(in, chunk, reduction).await();
        EXPECT_TRUE(same_bits(std::vector<T>(in.data() + first, in.data() + second), expected));
      }
    });
  });
}

TEST_P(Collectives, AllGatherGivesEveryRankAllChunks) {
  on_ranks([](Communicator& me) {
    for_each_case(me.size(), [&]<class T>(T, std::uint64_t count) {
      const auto [first, second] = chunk_of(count, me.rank(), me.size());
      std::vector<T> expected;
      for (int rank = 0; rank < me.size(); ++rank) {
        const auto chunk = chunk_of(count, rank, me.size());
        for (const T x : values<T>(rank, chunk.second - chunk.first, chunk.first)) {
          expected.push_back(x);
        }
      }
      const std::vector<T> in = values<T>(me.rank(), second - first, first);
      std::vector<T> out(count);
      me.all_gather(in, out).await();
      EXPECT_TRUE(same_bits(out, expected)) << count << ' ' << gpu::to_string(gpu::kDTypeOf<T>);
      // In place.
      std::vector<T> all(count);
      std::copy(in.begin(), in.end(), all.data() + first);
      me.all_gather(ConstElements(all.data() + first, second - first, gpu::kDTypeOf<T>), all)
          .await();
      EXPECT_TRUE(same_bits(all, expected)) << "in place";
    });
  });
}

TEST_P(Collectives, BroadcastCopiesTheRootsDataFromAnyRoot) {
  on_ranks([](Communicator& me) {
    for_each_case(me.size(), [&]<class T>(T, std::uint64_t count) {
      for (int root = 0; root < me.size(); ++root) {
        std::vector<T> data = values<T>(me.rank(), count);
        me.broadcast(data, root).await();
        EXPECT_TRUE(same_bits(data, values<T>(root, count))) << count << " from " << root;
      }
    });
  });
}

TEST_P(Collectives, OfAMillionElementsAreExactToo) {
  const auto count = static_cast<std::uint64_t>(leat::support::rounds(1'000'003));
  for (const int ranks : {2, 4}) {
    const std::vector<float> expected = all_combined<float>(ranks, count, Reduction::kSum);
    on_ranks(ranks, [&](Communicator& me) {
      std::vector<float> data = values<float>(me.rank(), count);
      const auto [first, second] = chunk_of(count, me.rank(), me.size());
      std::vector<float> chunk(second - first);
      me.reduce_scatter(data, chunk).await();
      std::vector<float> gathered(count);
      me.all_gather(chunk, gathered).await();
      EXPECT_TRUE(same_bits(gathered, expected));
      me.all_reduce(data).await();
      EXPECT_TRUE(same_bits(data, expected));
      me.broadcast(chunk = values<float>(me.rank(), count), ranks - 1).await();
      EXPECT_TRUE(same_bits(chunk, values<float>(ranks - 1, count)));
    });
  }
}

// 2048 + 1 is 2048 in fp16, whose numbers are 2 apart there; 256 + 1 likewise in bf16.
TEST_P(Collectives, SmallTypesAreRoundedOnceAtTheEnd) {
  on_ranks(3, [](Communicator& me) {
    std::vector<gpu::Float16> half = {
        support::narrow<gpu::Float16>(me.rank() == 0 ? 2048.0F : 1.0F)};
    me.all_reduce(half).await();
    EXPECT_EQ(support::widen(half[0]), 2050.0F);
    std::vector<gpu::BFloat16> brain = {
        support::narrow<gpu::BFloat16>(me.rank() == 0 ? 256.0F : 1.0F)};
    me.all_reduce(brain).await();
    EXPECT_EQ(support::widen(brain[0]), 258.0F);
  });
}

TEST_P(Collectives, SeveralAreUnderWayAtOnce) {
  on_ranks([](Communicator& me) {
    constexpr int kMany = 50;
    std::vector<std::vector<std::int32_t>> data(kMany);
    std::vector<Completion> sums;
    for (int i = 0; i < kMany; ++i) {
      data[static_cast<std::size_t>(i)].assign(static_cast<std::size_t>(i), me.rank() + i);
      sums.push_back(me.all_reduce(data[static_cast<std::size_t>(i)]));
    }
    for (int i = kMany - 1; i >= 0; --i) {
      const auto at = static_cast<std::size_t>(i);
      sums[at].await();
      const std::int32_t sum = me.size() * i + me.size() * (me.size() - 1) / 2;
      EXPECT_EQ(data[at], std::vector<std::int32_t>(at, sum));
    }
  });
}

TEST_P(Collectives, ABarrierEndsWhenAllHaveCalledIt) {
  on_ranks(3, [](Communicator& me) {
    if (me.rank() == 2) {
      std::vector<int> word(1);
      me.recv(word, 0).await();  // rank 0 has called the barrier
      me.recv(word, 1).await();
      me.barrier().await();
      return;
    }
    Completion barrier = me.barrier();
    EXPECT_FALSE(barrier.is_done());  // rank 2 waits for the word below
    const std::vector<int> word(1);
    me.send(word, 2).await();
    barrier.await();
    EXPECT_TRUE(barrier.is_done());
    barrier.await();  // returns at once
  });
}

}  // namespace collectives_test
}  // namespace leat::comm
