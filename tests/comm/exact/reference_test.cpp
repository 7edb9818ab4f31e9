// The formulas against the loop over events: two ways to the same time, neither of which is comm's.
#include "tests/comm/exact/reference.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/comm/exact/instances.h"

namespace leat::reference {
namespace {

using comm::Policy;
constexpr std::uint32_t kInstances = 5'000;

TEST(CommReference, FifoTakesTheTimeOfItsFormula) {
  for (std::uint32_t seed = 0; seed < kInstances; ++seed) {
    const Step step = any_step_with_a_first_tensor(seed, Policy::kFifo);
    const Simulated simulated = simulate(step);
    for (std::size_t r = 0; r < simulated.times.size(); ++r) {
      ASSERT_EQ(simulated.times[r], one_after_the_other(step, r)) << "seed " << seed;
    }
  }
}

TEST(CommReference, ASynchronousStepTakesTheTimeOfFifo) {
  for (std::uint32_t seed = 0; seed < kInstances; ++seed) {
    Step step = any_step(seed, seed % 2 == 0 ? Policy::kFifo : Policy::kPriority);
    step.synchronous = true;
    const Simulated simulated = simulate(step);
    for (std::size_t r = 0; r < simulated.times.size(); ++r) {
      ASSERT_EQ(simulated.times[r], one_after_the_other(step, r)) << "seed " << seed;
    }
  }
}

TEST(CommReference, PriorityReachesItsBoundWhereAllIsWholePieces) {
  for (std::uint32_t seed = 0; seed < kInstances; ++seed) {
    const Step step = whole_pieces(seed);
    const Simulated simulated = simulate(step);
    for (std::size_t r = 0; r < simulated.times.size(); ++r) {
      ASSERT_EQ(simulated.times[r], bound(step, r)) << "seed " << seed;
    }
  }
}

TEST(CommReference, PriorityStaysWithinWhatIsInFlightOfItsBound) {
  for (std::uint32_t seed = 0; seed < kInstances; ++seed) {
    const Step step = any_step(seed, Policy::kPriority);
    const Simulated simulated = simulate(step);
    for (std::size_t r = 0; r < simulated.times.size(); ++r) {
      ASSERT_GE(simulated.times[r], bound(step, r)) << "seed " << seed;
      ASSERT_LE(simulated.times[r], bound(step, r) + simulated.most_in_flight) << "seed " << seed;
    }
  }
}

TEST(CommReference, PriorityHidesSlowMessagesBehindPiecesInFlight) {
  for (std::uint32_t seed = 0; seed < kInstances; ++seed) {
    std::int64_t pieces = 0;
    const Step step = slow_messages(seed, pieces);
    const Simulated simulated = simulate(step);
    const std::int64_t late = pieces * step.time_of(step.partition) + 2 * step.delta;
    for (std::size_t r = 0; r < simulated.times.size(); ++r) {
      ASSERT_GE(simulated.times[r], bound(step, r)) << "seed " << seed;
      ASSERT_LE(simulated.times[r], bound(step, r) + late) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace leat::reference
