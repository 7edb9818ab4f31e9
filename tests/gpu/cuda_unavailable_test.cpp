// A program on a machine where CUDA cannot be used (no driver, no device, or no toolkit when it was
// built) starts, and is told quickly why, and what to do.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/error.h"
#include "leat/gpu/device.h"

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

/// What opening `name` throws; empty, with a failure, if it does not.
std::string why_not(const std::string& name) {
  try {
    static_cast<void>(open(name));
    ADD_FAILURE() << name << " was opened";
  } catch (const Error& error) {
    return error.what();
  }
  return "";
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
    EXPECT_NE(error.find(name), std::string::npos) << error;
    EXPECT_NE(error.find(list().cuda_status), std::string::npos) << error;
    EXPECT_NE(error.find("\"host\""), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST_F(CudaUnavailable, CudaWithoutANumberIsItsFirstDevice) {
  EXPECT_EQ(why_not("cuda"), why_not("cuda:0"));
}

TEST_F(CudaUnavailable, AutoIsTheHost) { EXPECT_EQ(open("auto").name(), "host:0"); }

TEST_F(CudaUnavailable, EveryAttemptGivesTheSameAnswerQuickly) {
  const auto start = std::chrono::steady_clock::now();
  const std::string first = why_not("cuda:0");
  for (int i = 1; i < 100; ++i) EXPECT_EQ(why_not("cuda:0"), first);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST_F(CudaUnavailable, ThreadsMayTryAtTheSameTime) {
  const std::string expected = why_not("cuda:0");
  std::atomic<int> same{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        if (why_not("cuda:0") == expected) same.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same.load(), 80);
}

}  // namespace cuda_unavailable_test
}  // namespace leat::gpu
