#include "tests/support/backends.h"

#include <ostream>
#include <utility>

#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/gpu/error.h"

namespace leat::support {

const std::vector<TestBackend>& test_backends() {
  static const std::vector<TestBackend> backends = {
      {.title = "Host", .device = "host:0", .second_device = "host:1"},
      {.title = "HostInARunOf1Worker", .device = "host:0", .second_device = "host:1", .workers = 1},
      {.title = "HostInARunOf2Workers",
       .device = "host:0",
       .second_device = "host:1",
       .workers = 2},
      {.title = "HostInVirtualTime",
       .device = "host:0",
       .second_device = "host:1",
       .workers = 2,
       .virtual_clock = true},
      {.title = "Cuda", .device = "cuda:0", .second_device = "cuda:1"},
      {.title = "CudaInARunOf2Workers",
       .device = "cuda:0",
       .second_device = "cuda:1",
       .workers = 2},
  };
  return backends;
}

void PrintTo(const TestBackend& backend, std::ostream* out) { *out << backend.device; }

std::string backend_title(const testing::TestParamInfo<TestBackend>& info) {
  return info.param.title;
}

void BackendTest::with_device(const gpu::MemoryCaps& caps,
                              const std::function<void(gpu::Device)>& body) {
  in_its_place(GetParam(), [&] {
    auto device = open_or_skip(GetParam().device, caps);
    if (!device) return;
    EXPECT_TRUE(device->capabilities().virtual_time || !GetParam().virtual_clock);
    body(*std::move(device));
  });
}

void BackendTest::with_two_devices(const std::function<void(gpu::Device, gpu::Device)>& body) {
  in_its_place(GetParam(), [&] {
    auto first = open_or_skip(GetParam().device);
    if (!first) return;
    auto second = open_or_skip(GetParam().second_device);
    if (second) body(*std::move(first), *std::move(second));
  });
}

void BackendTest::in_its_place(const TestBackend& backend, const std::function<void()>& body) {
  if (backend.workers == 0) {
    body();
  } else {
    VirtualClock clock;
    run(body, {.workers = backend.workers, .clock = backend.virtual_clock ? &clock : nullptr});
  }
}

std::optional<gpu::Device> open_or_skip(const std::string& name, const gpu::MemoryCaps& caps) {
  try {
    return gpu::open(name, caps);
  } catch (const gpu::GpuError&) {
    throw;  // there is such a device, and it failed
  } catch (const Error& none) {
    [&] { GTEST_SKIP() << none.what(); }();
    return std::nullopt;
  }
}

}  // namespace leat::support
