// What comm::open("nccl") says is missing.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/csp/clock.h"
#include "leat/gpu/host_model.h"
#include "tests/comm/nccl/stand_in/stand_in.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"
#include "tests/support/run.h"
#include "tests/support/texts.h"

namespace leat::comm {
namespace nccl_open_test {

using leat::support::expect_throws;

std::filesystem::path stand_in() { return std::filesystem::path(std::getenv("LEAT_NCCL_LIBRARY")); }

TEST(NcclOpen, AnAbsentLibraryIsNamed) {
  setenv("LEAT_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
  expect_throws<Error>([] { static_cast<void>(open("nccl:2")); },
                       {"comm::open(\"nccl:2\")", "/nowhere/libnccl.so.2", "LEAT_NCCL_LIBRARY"});
}

TEST(NcclOpen, ALibraryThatIsTooOldIsNamed) {
  for (const auto& [version, text] : std::vector<std::pair<int, std::string>>{
           {21703, "NCCL 2.17.3, which is too old"}, {2708, "NCCL 2.7.8, which is too old"}}) {
    nccl_stand_in::set_version(version);
    expect_throws<Error>([] { static_cast<void>(open("nccl:2")); }, {text, "2.18 or newer"});
  }
}

TEST(NcclOpen, ALibraryWithoutAFunctionIsNamed) {
  const std::string path = stand_in().parent_path() / "libnccl_lacking.so";
  setenv("LEAT_NCCL_LIBRARY", path.c_str(), 1);
  expect_throws<Error>([] { static_cast<void>(open("nccl:2")); }, {path, "lacks ncclGetUniqueId"});
}

TEST(NcclOpen, AMissingGpuIsToldWithTheNumberThatThereIs) {
  leat::stand_in::set_devices(1);
  expect_throws<Error>([] { static_cast<void>(open("nccl:2")); },
                       {"2 GPUs are needed", "there are 1 (1 device"});
  leat::stand_in::set_devices(0);
  expect_throws<Error>([] { static_cast<void>(open("nccl:1")); },
                       {"1 GPU is needed", "there are 0"});
}

TEST(NcclOpen, AMissingDriverIsTold) {
  leat::stand_in::set_driver_version(0);
  expect_throws<Error>([] { static_cast<void>(open("nccl:1")); }, {"1 GPU is needed", "driver"});
}

TEST(NcclOpen, OptionsThatDoNotFitAreRefused) {
  const auto refused = [](const OpenOptions& options, const std::vector<std::string_view>& parts) {
    expect_throws<std::invalid_argument>([&] { static_cast<void>(open("nccl:2", options)); },
                                         parts);
  };
  const gpu::Device one = gpu::open("cuda:0");
  refused({.devices = {one}}, {"1 devices for 2 ranks"});
  refused({.devices = {one, gpu::open("cuda:0")}}, {"cuda:0 is given to two ranks"});
  refused({.devices = {one, gpu::open("host")}}, {"host:0 is no GPU"});
  refused({.link = {.enabled = true}}, {"link model"});
  expect_throws<Error>([] { static_cast<void>(open("nccl:0")); }, {"write nccl:N"});
  expect_throws<Error>([] { static_cast<void>(open("nccl:x")); }, {"write nccl:N"});
  leat::support::in_virtual_time({}, [] {
    expect_throws<std::invalid_argument>([] { static_cast<void>(open("nccl:1")); },
                                         {"VirtualClock"});
  });
}

TEST(NcclOpen, DevicesMayBeChosen) {
  std::vector<Communicator> ranks =
      open("nccl:2", {.devices = {gpu::open("cuda:3"), gpu::open("cuda:1")}});
  EXPECT_EQ(ranks[0].device()->name(), "cuda:3");
  EXPECT_EQ(ranks[1].device()->name(), "cuda:1");
}

// The library itself, where it is installed, and no driver: its own CUDA runtime finds none.
TEST(NcclOpen, TheRealLibraryWithoutADriverSaysWhy) {
  std::string path = "libnccl.so.2";
  if (const char* const cuda = std::getenv("CUDA_HOME")) path = std::string(cuda) + "/lib/" + path;
  for (const std::string& one : {path, std::string("/usr/local/cuda/lib/libnccl.so.2")}) {
    if (dlopen(one.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr) continue;
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr)
      GTEST_SKIP() << "there is an NVIDIA driver here, beside which the stand-in for CUDA is none";
    setenv("LEAT_NCCL_LIBRARY", one.c_str(), 1);
    Communicator me = std::move(open("nccl:1").front());
    const gpu::DeviceBuffer memory(*me.device(), 64);
    try {
      me.all_reduce(Elements(memory.span(), DType::kFloat32)).await();
      ADD_FAILURE() << "no error";
    } catch (const CommError& error) {
      leat::support::expect_contains(
          error.what(), {"NCCL failed on rank 0, in all_reduce of 16 float32", "nccl", "cuda:0"});
      std::puts(error.what());
    }
    return;
  }
  GTEST_SKIP() << "NCCL's own library, libnccl.so.2, is not installed here";
}

}  // namespace nccl_open_test
}  // namespace leat::comm
