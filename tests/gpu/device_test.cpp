// Which names open which devices, and which errors other names give.
#include "leat/gpu/device.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/gpu/host_model.h"
#include "tests/support/bytes.h"
#include "tests/support/texts.h"

namespace leat::gpu {
namespace open_test {

std::string error_of(std::string_view name) {
  return support::text_of<Error>([&] { static_cast<void>(open(name)); });
}

std::size_t cuda_devices() { return list().devices.size() - 1; }

TEST(Open, HostIsTheFirstHostDevice) {
  const Device device = open("host");
  EXPECT_EQ(device.name(), "host:0");
  support::expect_works(device);
}

TEST(Open, OpensAsManyHostDevicesAsAreAskedFor) {
  for (const char* name : {"host:0", "host:1", "host:63", "host:2147483647"}) {
    const Device device = open(name);
    EXPECT_EQ(device.name(), name);
    EXPECT_EQ(device.info().name, name);
    support::expect_works(device);
  }
}

TEST(Open, GivesADeviceOfItsOwnEachTime) {
  const Device first = open("host:0");
  const Device second = open("host:0");
  EXPECT_FALSE(first == second);
  EXPECT_EQ(first, Device(first));
}

TEST(Open, AutoIsTheFirstOfTheList) { EXPECT_EQ(open("auto").name(), list().devices[0].name); }

TEST(Open, WorksInsideARun) {
  run([] { support::expect_works(open("host:5")); });
}

TEST(Open, RefusesNamesItDoesNotKnowAndSaysWhichThereAre) {
  for (const std::string name : {"",
                                 "gpu",
                                 "cpu",
                                 "cuda:x",
                                 "cuda:-1",
                                 "cuda:",
                                 "cuda:0x1",
                                 "cuda:1 ",
                                 "cuda: 1",
                                 "cuda:+1",
                                 "cuda:0:0",
                                 "host:",
                                 "host:-1",
                                 "host:99999999999999",
                                 "host:2147483648",
                                 "host:1.5",
                                 "hosts:1",
                                 "HOST",
                                 " host",
                                 "auto:0",
                                 "auto ",
                                 ":",
                                 ":0",
                                 "0"}) {
    const std::string error = error_of(name);
    support::expect_contains(error,
                             {"unknown device \"" + name + "\"", "use auto, cuda:N or host:N"});
  }
}

TEST(Open, NamesTheCudaDeviceThatIsNotThereAndWhy) {
  const std::string name = "cuda:" + std::to_string(cuda_devices() + 7);
  const std::string error = error_of(name);
  support::expect_contains(error, {name, list().cuda_status, "; "});  // and advice
  EXPECT_EQ(error.find("unknown device"), std::string::npos) << error;
}

TEST(OpenHost, RefusesNegativeNumbers) {
  EXPECT_THROW(static_cast<void>(open_host({}, -1)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(open_host({.h2d_bandwidth = -1})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(open_host({.d2h_bandwidth = -1})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(open_host({.copy_latency = Duration(-1)})), std::invalid_argument);
  constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(static_cast<void>(open_host({.h2d_bandwidth = kNotANumber})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(open_host({.d2h_bandwidth = kNotANumber})), std::invalid_argument);
}

TEST(OpenHost, TellsTheMemoryOfItsModel) {
  EXPECT_EQ(open_host({.memory_bytes = 12'345}, 3).info().memory_bytes, 12'345U);
  EXPECT_EQ(open_host({.memory_bytes = 12'345}, 3).name(), "host:3");
  EXPECT_GT(open_host({}).info().memory_bytes, std::size_t{1} << 20);
}

TEST(List, EndsWithTheHostAndSaysWhatThereIsOfCuda) {
  const DeviceList all = list();
  ASSERT_FALSE(all.devices.empty());
  EXPECT_EQ(all.devices.back().name, "host:0");
  EXPECT_GT(all.devices.back().memory_bytes, 0U);
  EXPECT_NE(all.cuda_status, "");
  for (std::size_t i = 0; i < cuda_devices(); ++i) {
    EXPECT_EQ(all.devices[i].name, "cuda:" + std::to_string(i));
  }
  for (const DeviceInfo& info : all.devices) {
    EXPECT_NE(info.description, "") << info.name;
    EXPECT_GE(info.copy_engines, 1) << info.name;
  }
}

TEST(List, NamesCanBeOpened) {
  for (const DeviceInfo& info : list().devices) {
    const Device device = open(info.name);
    EXPECT_EQ(device.name(), info.name);
    EXPECT_EQ(device.info().description, info.description);
    support::expect_works(device);
  }
}

}  // namespace open_test
}  // namespace leat::gpu
