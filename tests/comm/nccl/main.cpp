// Each test in what looks like a process of its own, with four GPUs and NCCL.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>

#include "tests/comm/nccl/stand_in/stand_in.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"

namespace leat::stand_in {

void PrintTo(const Live& live, std::ostream* out) {  // NOLINT: GoogleTest's name
  *out << live.streams << " streams, " << live.events << " events, " << live.device_allocations
       << " allocations and " << live.pinned_allocations << " pinned ones";
}

}  // namespace leat::stand_in

namespace {

/// No test may leave anything behind.
class AroundEachTest : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& /*test*/) override {
    Dl_info library{};
    dladdr(reinterpret_cast<const void*>(&leat::nccl_stand_in::reset), &library);
    setenv("LEAT_NCCL_LIBRARY", library.dli_fname, 1);
    leat::stand_in::set_devices(4);
  }
  void OnTestEnd(const testing::TestInfo& /*test*/) override {
    EXPECT_EQ(leat::nccl_stand_in::live(), 0U) << "communicators or operators were left behind";
    leat::stand_in::wait_for_destroyed_streams();
    EXPECT_EQ(leat::stand_in::live(), leat::stand_in::Live{}) << "were left behind";
    EXPECT_EQ(leat::stand_in::calls_in_host_functions(), 0U);
    leat::stand_in::reset();
    leat::nccl_stand_in::reset();
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new AroundEachTest);
  return RUN_ALL_TESTS();
}
