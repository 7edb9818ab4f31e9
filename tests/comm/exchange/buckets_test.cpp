#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <vector>

#include "leat/comm/exchange/plan.h"
#include "leat/gpu/dtype.h"

namespace leat::comm {
namespace {

using gpu::DType;
using Buckets = std::vector<std::vector<std::size_t>>;
constexpr DType kF32 = DType::kFloat32;
constexpr DType kF64 = DType::kFloat64;

// PyTorch's own cases.
TEST(Buckets, TensorsAreAssignedAsByDdp) {
  std::ifstream file("tests/comm/data/workloads.json");
  const nlohmann::json cases = nlohmann::json::parse(file).at("ddp_bucket_cases");
  ASSERT_EQ(cases.size(), 2U);
  for (const auto& one : cases) {
    std::vector<std::size_t> sizes;
    std::vector<DType> dtypes;
    for (const auto& tensor : one.at("tensors")) {
      dtypes.push_back(tensor.at(0) == "f32" ? kF32 : kF64);
      sizes.push_back(tensor.at(1).get<std::size_t>() * gpu::size_of(dtypes.back()));
    }
    EXPECT_EQ(assign_buckets(sizes, dtypes, one.at("limits_bytes").get<std::vector<std::size_t>>()),
              one.at("buckets").get<Buckets>())
        << one.at("name");
  }
}

TEST(Buckets, LimitsAdvanceForEachDtypeAndTheLastRepeats) {
  EXPECT_EQ(assign_buckets(std::vector<std::size_t>{40, 80, 40, 80, 40, 80, 40, 80, 40},
                           std::vector<DType>{kF32, kF64, kF32, kF64, kF32, kF64, kF32, kF64, kF32},
                           std::vector<std::size_t>{40, 80}),
            (Buckets{{0}, {1}, {2, 4}, {3}, {5}, {6, 8}, {7}}));
}

TEST(Buckets, BucketsStandInTheOrderOfTheirFirstTensors) {
  // The bucket of float64 is closed first, that of float32 began before.
  EXPECT_EQ(assign_buckets(std::vector<std::size_t>{4, 8, 4}, std::vector<DType>{kF32, kF64, kF32},
                           std::vector<std::size_t>{8}),
            (Buckets{{0, 2}, {1}}));
}

TEST(Buckets, EmptyTensorsAndAnEmptyListHaveTheirPlace) {
  EXPECT_EQ(assign_buckets({}, {}, std::vector<std::size_t>{8}), Buckets{});
  EXPECT_EQ(assign_buckets(std::vector<std::size_t>{0, 0}, std::vector<DType>{kF32, kF32},
                           std::vector<std::size_t>{8}),
            (Buckets{{0, 1}}));
}

TEST(Buckets, EveryTensorIsInOneBucketAndEveryBucketBeforeTheLastIsFull) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::size_t n = random() % 30;
    std::vector<std::size_t> sizes;
    std::vector<DType> dtypes;
    for (std::size_t i = 0; i < n; ++i) {
      sizes.push_back(random() % 100);
      dtypes.push_back(random() % 2 == 0 ? kF32 : kF64);
    }
    const std::vector<std::size_t> limits = {1 + random() % 50, 1 + random() % 200};
    std::vector<int> seen(n);
    std::size_t open[2] = {};
    std::size_t closed[2] = {};
    std::size_t previous = 0;
    for (const auto& bucket : assign_buckets(sizes, dtypes, limits)) {
      ASSERT_FALSE(bucket.empty());
      EXPECT_TRUE(bucket.front() > previous || previous == 0);
      previous = bucket.front();
      const DType dtype = dtypes[bucket.front()];
      std::size_t bytes = 0;
      for (const std::size_t i : bucket) {
        EXPECT_EQ(dtypes[i], dtype);
        ++seen[i];
        if (i == bucket.back()) continue;  // without it the bucket was open
        bytes += sizes[i];
      }
      const std::size_t kind = dtype == kF32 ? 0 : 1;
      const std::size_t limit = limits[closed[kind] == 0 ? 0 : 1];
      EXPECT_LT(bytes, limit);
      if (bytes + sizes[bucket.back()] >= limit) {
        ++closed[kind];
      } else {
        ++open[kind];
      }
    }
    EXPECT_LE(open[0], 1U);
    EXPECT_LE(open[1], 1U);
    EXPECT_EQ(seen, std::vector<int>(n, 1));
  }
}

TEST(Buckets, AListWithoutLimitsOrTypesIsRefused) {
  EXPECT_THROW((void)assign_buckets({}, {}, {}), std::invalid_argument);
  EXPECT_THROW((void)assign_buckets(std::vector<std::size_t>{4}, {}, std::vector<std::size_t>{8}),
               std::invalid_argument);
}

}  // namespace
}  // namespace leat::comm
