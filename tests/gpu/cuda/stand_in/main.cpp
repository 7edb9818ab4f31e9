// The tests of the CUDA backend, each in what looks like a process of its own.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/gpu/cuda/stand_in/stand_in.h"

namespace leat::stand_in {

void PrintTo(const Live& live, std::ostream* out) {  // NOLINT: GoogleTest's name
  *out << live.streams << " streams, " << live.events << " events, " << live.device_allocations
       << " allocations (" << live.device_bytes << " bytes) and " << live.pinned_allocations
       << " pinned ones, " << live.registrations << " registrations, " << live.graphs << " graphs";
}

namespace {

/// No test may leave anything behind, copy what is not pinned, or call CUDA in a host function.
class AroundEachTest : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& /*test*/) override { shake_threads(); }
  void OnTestEnd(const testing::TestInfo& /*test*/) override {
    wait_for_destroyed_streams();
    EXPECT_EQ(live(), Live{}) << "were left behind";
    EXPECT_EQ(pageable_copies(), 0U);
    EXPECT_EQ(calls_in_host_functions(), 0U);
    reset();
  }
};

}  // namespace
}  // namespace leat::stand_in

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new leat::stand_in::AroundEachTest);
  return RUN_ALL_TESTS();
}
