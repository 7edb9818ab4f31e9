// One GPU a process: what moves in device memory is NCCL's work. Under mpirun.
#include "tests/comm/nccl/process.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "leat/comm/communicator.h"
#include "tests/comm/nccl/stand_in/stand_in.h"
#include "tests/comm/support/far_training.h"
#include "tests/comm/support/ranks.h"
#include "tests/comm/support/training.h"

namespace leat::comm {
namespace nccl_process_test {

TEST(NcclProcess, CollectivesInDeviceMemoryAreNccls) {
  const std::uint64_t before = nccl_stand_in::operations();
  support::rank_places()[0].run(3, {}, [](Communicator& me) {
    std::vector<float> data(100, static_cast<float>(me.rank() + 1));
    me.all_reduce(data).await();
    EXPECT_EQ(data, std::vector<float>(100, 6));
  });
  EXPECT_GT(nccl_stand_in::operations(), before);
}

TEST(NcclProcess, ExchangesHaveTheResultsOfAPlainLoop) {
  const std::shared_ptr<Transport>& all = support::nccl_of_process();
  std::vector<int> members(static_cast<std::size_t>(all->size()));
  std::iota(members.begin(), members.end(), 0);
  const std::uint64_t before = nccl_stand_in::operations();
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "seed " << seed);
    support::Plan plan = support::random_plan(seed, all->size());
    plan.options.weights = Weights::kOnes;  // those of 16-bit types are rounded to these
    Communicator me(all->subset(seed + 1, members));
    support::train_far(me, plan, *me.device(), /*syncs=*/true);
  }
  EXPECT_GT(nccl_stand_in::operations(), before);
}

}  // namespace nccl_process_test
}  // namespace leat::comm
