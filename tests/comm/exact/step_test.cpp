// The exchange on a modelled link in virtual time: the times of the formulas, and those of a loop
// over events that shares no code with it.
#include "bench/comm/step.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "leat/csp/clock.h"
#include "tests/comm/exact/instances.h"
#include "tests/comm/exact/reference.h"

namespace leat::reference {
namespace {

using comm::Policy;

std::vector<std::int64_t> times_of(const Step& step) {
  std::vector<std::int64_t> times;
  for (const Duration time : bench::run_step(to_instance(step))) times.push_back(time.count());
  return times;
}

// The first layers of the instance that differs, so that it can be run alone.
std::string told(std::uint32_t seed, const Step& step) {
  return "seed " + std::to_string(seed) + ", " + std::to_string(step.ranks()) + " ranks, " +
         std::to_string(step.layers()) + " layers";
}

// A sanitizer looks at what runs, which a few instances have run.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint32_t kStepInstances = 30;
#else
constexpr std::uint32_t kStepInstances = 1'000;
#endif

// Calls check(step, seed, times) for each instance.
template <class Make, class Check>
void for_instances(const Make& make, const Check& check) {
  for (std::uint32_t seed = 0; seed < kStepInstances && !testing::Test::HasFailure(); ++seed) {
    const Step step = make(seed);
    SCOPED_TRACE(told(seed, step));
    const std::vector<std::int64_t> times = times_of(step);
    ASSERT_EQ(times, simulate(step).times);
    check(step, seed, times);
  }
}

TEST(CommStep, FifoTakesTheTimeOfItsFormulaForAnyPartitionAndCredit) {
  for_instances(
      [](std::uint32_t seed) { return any_step_with_a_first_tensor(seed, Policy::kFifo); },
      [](const Step& step, std::uint32_t, const std::vector<std::int64_t>& times) {
        for (std::size_t r = 0; r < times.size(); ++r) {
          ASSERT_EQ(times[r], one_after_the_other(step, r));
        }
      });
}

TEST(CommStep, ASynchronousStepTakesTheTimeOfFifoUnderEveryPolicy) {
  for_instances(
      [](std::uint32_t seed) {
        Step step = any_step(seed, seed % 2 == 0 ? Policy::kFifo : Policy::kPriority);
        step.synchronous = true;
        return step;
      },
      [](const Step& step, std::uint32_t, const std::vector<std::int64_t>& times) {
        for (std::size_t r = 0; r < times.size(); ++r) {
          ASSERT_EQ(times[r], one_after_the_other(step, r));
        }
      });
}

TEST(CommStep, PriorityReachesItsBoundWhereAllIsWholePieces) {
  for_instances(whole_pieces,
                [](const Step& step, std::uint32_t, const std::vector<std::int64_t>& times) {
                  for (std::size_t r = 0; r < times.size(); ++r) {
                    ASSERT_EQ(times[r], bound(step, r));
                  }
                });
}

TEST(CommStep, PriorityStaysWithinWhatIsInFlightOfItsBound) {
  for_instances([](std::uint32_t seed) { return any_step(seed, Policy::kPriority); },
                [](const Step& step, std::uint32_t, const std::vector<std::int64_t>& times) {
                  const std::int64_t in_flight = simulate(step).most_in_flight;
                  for (std::size_t r = 0; r < times.size(); ++r) {
                    ASSERT_GE(times[r], bound(step, r));
                    ASSERT_LE(times[r], bound(step, r) + in_flight);
                  }
                });
}

TEST(CommStep, PriorityHidesSlowMessagesBehindPiecesInFlight) {
  const auto make = [](std::uint32_t seed) {
    std::int64_t pieces = 0;
    return slow_messages(seed, pieces);
  };
  for_instances(make,
                [](const Step& step, std::uint32_t seed, const std::vector<std::int64_t>& times) {
                  std::int64_t pieces = 0;
                  (void)slow_messages(seed, pieces);
                  const std::int64_t late = pieces * step.time_of(step.partition) + 2 * step.delta;
                  for (std::size_t r = 0; r < times.size(); ++r) {
                    ASSERT_GE(times[r], bound(step, r));
                    ASSERT_LE(times[r], bound(step, r) + late);
                  }
                });
}

TEST(CommStep, BucketsGoOneAfterTheOtherWhenTheyAreFull) {
  for_instances([](std::uint32_t seed) { return any_step(seed, Policy::kBucketed); },
                [](const Step&, std::uint32_t, const std::vector<std::int64_t>&) {});
}

TEST(CommStep, ASynchronousBucketedStepWaitsForTheLastBucket) {
  for_instances(
      [](std::uint32_t seed) {
        Step step = any_step(seed, Policy::kBucketed);
        step.synchronous = true;
        return step;
      },
      [](const Step&, std::uint32_t, const std::vector<std::int64_t>&) {});
}

TEST(CommStep, EveryPolicyHasTheTimesOfTheModelWithSlowMessages) {
  for_instances(
      [](std::uint32_t seed) {
        const std::vector<Policy> policies = {Policy::kFifo, Policy::kPriority, Policy::kBucketed};
        Step step = any_step(seed, policies[seed % 3]);
        step.delta = Dice(~seed).number(1, 100);
        return step;
      },
      [](const Step&, std::uint32_t, const std::vector<std::int64_t>&) {});
}

}  // namespace
}  // namespace leat::reference
