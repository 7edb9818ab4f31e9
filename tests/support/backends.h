// The backends that the conformance tests run on: a table, and the fixture that opens them.
//
// A test knows no backend. It asks for a device, and reads what that can do in its Capabilities:
//
//   TEST_P(GpuStream, RunsItsOperationsInOrder) {
//     with_device([](const Device& device) { ... });
//   }
//
// No backend lacks anything of what the tests ask for.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "leat/gpu/device.h"

namespace leat::support {

struct TestBackend {
  std::string title;  // in the tests' names
  std::string device;
  std::string second_device;  // another one of the same family
  /// Workers of the run that the device is opened, and the test runs, in; 0: on a plain thread.
  int workers = 0;
  bool virtual_clock = false;
};
void PrintTo(const TestBackend& backend, std::ostream* out);  // NOLINT: GoogleTest's name

/// The table.
[[nodiscard]] const std::vector<TestBackend>& test_backends();
/// A test's name on that backend.
[[nodiscard]] std::string backend_title(const testing::TestParamInfo<TestBackend>& info);

/// Opens a device. Where this machine has no such one, the current test is skipped; every other
/// error is thrown, and so a failure.
[[nodiscard]] std::optional<gpu::Device> open_or_skip(const std::string& name,
                                                      const gpu::MemoryCaps& caps = {});

class BackendTest : public testing::TestWithParam<TestBackend> {
 protected:
  /// Opens the backend's device and calls `body` with it, in a run where the table says so. Skips
  /// the test where this machine has no such device; every other error is a failure.
  void with_device(const std::function<void(gpu::Device)>& body) { with_device({}, body); }
  void with_device(const gpu::MemoryCaps& caps, const std::function<void(gpu::Device)>& body);
  /// The same with two devices of the backend's family.
  void with_two_devices(const std::function<void(gpu::Device, gpu::Device)>& body);

 private:
  static void in_its_place(const TestBackend& backend, const std::function<void()>& body);
};

}  // namespace leat::support
