// Which positions each rank's batch holds, against counting.
#include "leat/feeder/plan/batch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace leat::feeder {
namespace batch_plan_test {

std::vector<std::uint64_t> shard_sizes(const BatchPlan& plan, std::uint64_t batch) {
  std::vector<std::uint64_t> sizes;
  for (std::size_t rank = 0; rank < plan.ranks(); ++rank) {
    sizes.push_back(plan.shard(batch, rank).count);
  }
  return sizes;
}

using Sizes = std::vector<std::uint64_t>;

TEST(BatchPlan, ShardsOfOneBatchDifferByAtMostOne) {
  EXPECT_EQ(shard_sizes({10, 10, 4, LastBatch::kPartial}, 0), (Sizes{3, 3, 2, 2}));
  EXPECT_EQ(shard_sizes({7, 8, 8, LastBatch::kPartial}, 0), (Sizes{1, 1, 1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(shard_sizes({16, 8, 4, LastBatch::kPartial}, 1), (Sizes{2, 2, 2, 2}));
  EXPECT_EQ(BatchPlan(7, 8, 8, LastBatch::kPartial).shards(7), 7U);
  EXPECT_EQ(BatchPlan(10, 10, 4, LastBatch::kPartial).shards(10), 4U);
  EXPECT_EQ(BatchPlan(0, 8, 8, LastBatch::kPartial).shards(0), 0U);
}

// For every small epoch: the shards of a batch are its positions, in rank order, and the batches
// are the epoch's.
TEST(BatchPlan, ShardsAreTheEpochExactlyOnceInOrder) {
  for (const LastBatch last :
       {LastBatch::kPartial, LastBatch::kDrop, LastBatch::kPad, LastBatch::kWrap}) {
    for (std::uint64_t samples = 0; samples < 30; ++samples) {
      for (std::size_t batch_size = 1; batch_size < 12; ++batch_size) {
        for (std::size_t ranks = 1; ranks < 9; ++ranks) {
          SCOPED_TRACE(testing::Message() << samples << " samples in batches of " << batch_size
                                          << " over " << ranks << ", " << to_string(last));
          const BatchPlan plan(samples, batch_size, ranks, last);
          std::uint64_t next = 0;
          for (std::uint64_t batch = 0; batch < plan.batches(); ++batch) {
            ASSERT_EQ(plan.positions(batch).first, next);
            for (std::size_t rank = 0; rank < ranks; ++rank) {
              const PositionRange shard = plan.shard(batch, rank);
              ASSERT_EQ(shard.first, next);
              ASSERT_LE(shard.count, plan.rows(rank));
              next += shard.count;
            }
            ASSERT_EQ(next, plan.positions(batch).first + plan.positions(batch).count);
          }
          const std::uint64_t whole = samples / batch_size * batch_size;
          const std::uint64_t filled_up = (samples + batch_size - 1) / batch_size * batch_size;
          ASSERT_EQ(next, last == LastBatch::kDrop   ? whole
                          : last == LastBatch::kWrap ? filled_up
                                                     : samples);
        }
      }
    }
  }
}

TEST(BatchPlan, AllRowsOfAFullBatchAreTheBatch) {
  for (std::size_t ranks = 1; ranks < 9; ++ranks) {
    std::size_t rows = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      rows += BatchPlan(3, 13, ranks, LastBatch::kPad).rows(rank);
    }
    EXPECT_EQ(rows, 13U);
  }
}

TEST(BatchPlan, ASliceOfSeveralRangesIsThatOfWhatTheyList) {
  const std::vector<PositionRange> ranges = {{3, 2}, {10, 1}, {20, 4}, {30, 1}};
  std::vector<std::uint64_t> all;
  for (const PositionRange& range : ranges) {
    for (std::uint64_t i = 0; i < range.count; ++i) all.push_back(range.first + i);
  }
  for (std::uint64_t first = 0; first <= all.size(); ++first) {
    for (std::uint64_t count = 0; first + count <= all.size(); ++count) {
      std::vector<PositionRange> slice;
      append_slice(ranges, first, count, slice);
      std::vector<std::uint64_t> got;
      for (const PositionRange& range : slice) {
        ASSERT_GT(range.count, 0U);
        for (std::uint64_t i = 0; i < range.count; ++i) got.push_back(range.first + i);
      }
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      ASSERT_EQ(got, std::vector(begin, begin + static_cast<std::ptrdiff_t>(count)));
    }
  }
}

}  // namespace batch_plan_test
}  // namespace leat::feeder
