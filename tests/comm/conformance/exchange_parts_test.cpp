// What exchanges use of a transport: notices, and sums that are weighted by samples.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/transports/reduce.h"
#include "leat/csp/channel.h"
#include "tests/comm/support/ranks.h"
#include "tests/comm/support/values.h"

namespace leat::comm {
namespace exchange_parts_test {

using support::value;

class ExchangeParts : public support::RankTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, ExchangeParts, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

TEST_P(ExchangeParts, NoticesOfARankArriveInOrderAndWaitForAListener) {
  on_ranks([](Communicator& me) {
    constexpr std::uint64_t kEach = 20;
    Communicator other = me.duplicate();  // whose notices are others
    for (std::uint64_t i = 0; i < kEach; ++i) {
      for (int to = 0; to < me.size(); ++to) {
        const std::array<Notice, 2> two = {
            Notice{.kind = 7, .tensor = 1, .piece = 2, .step = 2 * i, .value = ~std::uint64_t{0}},
            Notice{.kind = 8, .step = 2 * i + 1}};
        me.transport()->post(to, two);
        other.transport()->post(to, {two.data(), 1});
      }
      if (i == kEach / 2) me.barrier().await();  // some wait, some come later
      if (i != kEach / 2) continue;
      const auto ranks = static_cast<std::uint64_t>(me.size());
      const Channel<Notice> notices(static_cast<std::int64_t>(2 * kEach * ranks));
      me.transport()->listen(notices);
      std::vector<std::uint64_t> next(ranks);
      for (std::uint64_t k = 0; k < 2 * (i + 1) * ranks; ++k) {
        const Notice one = notices.recv().value();
        ASSERT_TRUE(one.from >= 0 && one.from < me.size());
        EXPECT_EQ(one.step, next[static_cast<std::size_t>(one.from)]++);
        EXPECT_EQ(one.kind, 7 + one.step % 2);
        EXPECT_EQ(one.value, one.kind == 7 ? ~std::uint64_t{0} : 0);
      }
    }
    me.barrier().await();
  });
}

/// A weighted all_reduce, and the wait for its end.
void weighted_sum(Communicator& me, std::uint64_t number, std::uint64_t samples, const void* in,
                  std::vector<float>& out) {
  const Channel<bool> ended(1);
  Operation sum{.signature = {.kind = OperationKind::kAllReduce,
                              .dtype = DType::kFloat32,
                              .is_weighted = true,
                              .count = out.size(),
                              .number = number},
                .in = in,
                .out = out.data(),
                .samples = samples};
  sum.owner = const_cast<Channel<bool>*>(&ended);
  sum.finished = [](Operation& operation, const Failure* failure) noexcept {
    static_cast<void>(static_cast<Channel<bool>*>(operation.owner)->try_send(failure == nullptr));
  };
  me.transport()->begin(sum);
  EXPECT_TRUE(ended.recv().value());
}

TEST_P(ExchangeParts, AWeightedSumIsTheMeanOverAllSamplesAndLeavesOutWhatIsEmpty) {
  on_ranks([](Communicator& me) {
    Communicator sums = me.duplicate();  // numbered here
    std::uint64_t number = 0;
    for (const std::size_t count : {1U, 1'000U, 50'000U}) {
      for (const int empty : {-1, 0, me.size() - 1}) {
        // Rank r has 3r + 1 samples; those of an empty one count in the total.
        const auto samples_of = [](int rank) { return static_cast<std::uint64_t>(3 * rank + 1); };
        std::uint64_t total = 0;
        for (int rank = 0; rank < me.size(); ++rank) total += samples_of(rank);
        std::vector<float> expected;
        for (std::size_t i = 0; i < count; ++i) {
          std::optional<float> sum;
          for (int rank = 0; rank < me.size(); ++rank) {
            if (rank == empty) continue;
            const auto weight = static_cast<float>(static_cast<double>(samples_of(rank)) /
                                                   static_cast<double>(total));
            // Not fused: the product is stored first.
            const volatile float product = weight * value<float>(rank, i);
            sum = sum.has_value() ? *sum + product : product;
          }
          expected.push_back(sum.value_or(0));
        }
        std::vector<float> data = support::values<float>(me.rank(), count);
        weighted_sum(sums, number++, samples_of(me.rank()),
                     me.rank() == empty ? nullptr : data.data(), data);
        EXPECT_TRUE(support::same_bits(data, expected)) << count << " without " << empty;
      }
    }
  });
}

TEST_P(ExchangeParts, WithoutAnySampleTheSumIsZero) {
  on_ranks(2, [](Communicator& me) {
    Communicator sums = me.duplicate();
    std::vector<float> data(5, 3);
    weighted_sum(sums, 0, 0, nullptr, data);
    EXPECT_EQ(data, std::vector<float>(5, 0));
  });
}

}  // namespace exchange_parts_test
}  // namespace leat::comm
