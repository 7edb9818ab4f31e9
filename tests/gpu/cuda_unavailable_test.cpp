// A program on a machine where CUDA cannot be used (no driver, no device, or no toolkit when it was
// built) starts, and is told quickly why, and what to do.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "leat/csp/error.h"
#include "leat/gpu/device.h"
#include "tests/support/plain_threads.h"
#include "tests/support/texts.h"

namespace leat::gpu {
namespace cuda_unavailable_test {

using namespace std::chrono_literals;

class CudaUnavailable : public testing::Test {
 protected:
  void SetUp() override {
    if (const DeviceList all = list(); all.devices.front().name == "cuda:0") {
      GTEST_SKIP() << "this machine has " << all.cuda_status;
    }
  }
};

/// What opening `name` throws.
std::string why_not(const std::string& name) {
  return support::text_of<Error>([&] { static_cast<void>(open(name)); });
}

TEST_F(CudaUnavailable, ListSaysWhyAndHasTheHostAlone) {
  const DeviceList all = list();
  EXPECT_FALSE(all.cuda_status.empty());
  ASSERT_EQ(all.devices.size(), 1U);
  EXPECT_EQ(all.devices.front().name, "host:0");
}

TEST_F(CudaUnavailable, OpenNamesTheDeviceTheReasonAndWhatToDo) {
  for (const std::string name : {"cuda:0", "cuda:7"}) {
    const std::string error = why_not(name);
    support::expect_contains(error, {name, list().cuda_status, "\"host\""});
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST_F(CudaUnavailable, CudaWithoutANumberIsItsFirstDevice) {
  EXPECT_EQ(why_not("cuda"), why_not("cuda:0"));
}

TEST_F(CudaUnavailable, EveryAttemptOfEveryThreadGivesTheSameAnswerQuickly) {
  const auto start = std::chrono::steady_clock::now();
  const std::string expected = why_not("cuda:0");
  support::on_plain_threads(8, [&](int /*thread*/) {
    for (int k = 0; k < 10; ++k) EXPECT_EQ(why_not("cuda:0"), expected);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

}  // namespace cuda_unavailable_test
}  // namespace leat::gpu
