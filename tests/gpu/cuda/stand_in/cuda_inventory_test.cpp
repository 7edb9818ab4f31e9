// What Leat says of CUDA on machines where it is missing, old, empty or odd.
#include <driver_types.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "leat/gpu/device.h"
#include "leat/gpu/error.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"
#include "tests/support/bytes.h"
#include "tests/support/texts.h"

namespace leat::gpu {
namespace cuda_inventory_test {

using support::expect_contains;

/// There is no CUDA device, and the reason, in the list and in open()'s error, has `part`.
void expect_none(std::string_view part) {
  const DeviceList all = list();
  EXPECT_EQ(all.devices.size(), 1U);
  expect_contains(all.cuda_status, {part});
  EXPECT_EQ(open("auto").name(), "host:0");
  try {
    static_cast<void>(open("cuda:0"));
    ADD_FAILURE() << "was opened";
  } catch (const GpuError& error) {
    ADD_FAILURE() << "is said to be broken: " << error.what();
  } catch (const Error& error) {
    expect_contains(error.what(), {"cannot open cuda:0: " + all.cuda_status, "; or open \"host\""});
  }
}

/// There is a device that cannot be used: open() throws GpuError.
void expect_broken(cudaError_t code, std::string_view part) {
  try {
    static_cast<void>(open("cuda:0"));
    ADD_FAILURE() << "was opened";
  } catch (const GpuError& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(error.call(), "cudaGetDeviceCount");
    EXPECT_EQ(error.device(), "cuda:0");
    expect_contains(error.what(), {part});
  }
}

std::string runtime_version() {
  return std::to_string(stand_in::kRuntimeVersion / 1000) + "." +
         std::to_string(stand_in::kRuntimeVersion % 1000 / 10);
}

// Of a runtime of CUDA 13.9, which is the stand-in's, any driver of CUDA 13 will do.
std::string oldest_driver() { return std::to_string(stand_in::kRuntimeVersion / 1000) + ".0"; }

TEST(CudaInventory, HasAllDevicesAndMakesNoContext) {
  const DeviceList all = list();
  ASSERT_EQ(all.devices.size(), 3U);
  EXPECT_EQ(all.devices[1].name, "cuda:1");
  EXPECT_EQ(all.devices[1].description, "CUDA stand-in");
  EXPECT_EQ(all.devices[1].numa_node, 0);
  EXPECT_EQ(all.devices[1].copy_engines, 2);
  EXPECT_EQ(all.cuda_status,
            "2 devices, driver " + runtime_version() + ", runtime " + runtime_version());
  EXPECT_EQ(stand_in::calls("cuDevicePrimaryCtxRetain"), 0U);
}

TEST(CudaInventory, OneDeviceIsNotTwo) {
  stand_in::set_devices(1);
  expect_contains(list().cuda_status, {"1 device, "});
}

TEST(CudaInventory, WithoutADriverItSaysSo) {
  stand_in::set_driver_version(0);
  expect_none("no NVIDIA driver was found; install one for CUDA " + oldest_driver() + " or newer");
}

TEST(CudaInventory, AnOldDriverIsNamedWithBothVersions) {
  stand_in::set_driver_version(11040);
  expect_none("the NVIDIA driver is too old: it supports CUDA 11.4, this program needs " +
              oldest_driver() + ";");
}

TEST(CudaInventory, ADriverWithoutDevicesIsNamed) {
  stand_in::set_devices(0);
  const char* const before = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::optional<std::string> visible(before == nullptr ? std::nullopt
                                                             : std::optional<std::string>(before));
  ASSERT_EQ(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
  expect_none("no device, though there is a driver (CUDA " + runtime_version() + ")");
  ASSERT_EQ(setenv("CUDA_VISIBLE_DEVICES", "-1", 1), 0);
  expect_none("CUDA_VISIBLE_DEVICES=\"-1\" hides them all");
  ASSERT_EQ(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
  if (visible) {
    ASSERT_EQ(setenv("CUDA_VISIBLE_DEVICES", visible->c_str(), 1), 0);
  }
}

TEST(CudaInventory, ARuntimeThatIsUnloadingHasNoDevices) {
  stand_in::unload();
  expect_broken(cudaErrorCudartUnloading, "the process is ending");
}

TEST(CudaInventory, ADriverThatFailsIsNoMachineWithoutDevices) {
  stand_in::fail_call("cudaGetDeviceCount", cudaErrorSystemNotReady);
  const DeviceList all = list();
  EXPECT_EQ(all.devices.size(), 1U);
  expect_contains(all.cuda_status, {"(802): start the driver's services"});
  for (const cudaError_t code : {cudaErrorSystemNotReady, cudaErrorSystemDriverMismatch,
                                 cudaErrorInitializationError, cudaErrorDevicesUnavailable}) {
    stand_in::fail_call("cudaGetDeviceCount", code);
    expect_broken(code, "");
  }
}

TEST(CudaInventory, ADeviceThatCannotBeDescribedIsListedWithTheReason) {
  stand_in::fail_call("cudaGetDeviceProperties", cudaErrorDevicesUnavailable, 2);
  const DeviceList all = list();
  ASSERT_EQ(all.devices.size(), 3U);
  EXPECT_EQ(all.devices[0].description, "CUDA stand-in");
  expect_contains(all.devices[1].description, {"not usable: cudaErrorDevicesUnavailable"});
}

TEST(CudaInventory, ANodeThatIsUnknownIsNone) {
  stand_in::fail_call("cudaDeviceGetAttribute", cudaErrorInvalidValue);
  EXPECT_EQ(list().devices[0].numa_node, -1);
}

TEST(CudaInventory, DevicesBeyondTheLastAreRefusedWithTheirRange) {
  support::expect_throws<Error>([] { static_cast<void>(open("cuda:2")); },
                                {"open cuda:0 to cuda:1 or \"host\""});
}

TEST(CudaInventory, DevicesOfOneNumberMayBeOpenedTwice) {
  const Device first = open("cuda:1");
  const Device second = open("cuda:1");
  EXPECT_FALSE(first == second);
  support::expect_works(first);
  support::expect_works(second);
}

}  // namespace cuda_inventory_test
}  // namespace leat::gpu
