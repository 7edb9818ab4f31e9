// Which devices there are.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "leat/gpu/device.h"
#include "leat/python/calls/waiting.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

void bind_devices(nb::module_& module) {
  nb::class_<gpu::DeviceInfo>(module, "DeviceInfo", "What a device is.")
      .def_ro("name", &gpu::DeviceInfo::name, "As a Prefetcher takes it: \"cuda:0\", \"host:0\".")
      .def_ro("description", &gpu::DeviceInfo::description,
              "The product's name, or why the device cannot be used.")
      .def_ro("memory_bytes", &gpu::DeviceInfo::memory_bytes)
      .def("__repr__", [](const gpu::DeviceInfo& info) {
        return std::string("DeviceInfo(")
            .append(info.name)
            .append(", ")
            .append(info.description)
            .append(")");
      });
  module.def(
      "devices", [] { return gpu::list().devices; }, nb::call_guard<WithoutGil>(),
      "The devices of this machine: CUDA devices first; the last is \"host:0\". Creates no "
      "context.");
  module.def(
      "cuda_status", [] { return gpu::list().cuda_status; }, nb::call_guard<WithoutGil>(),
      "The state of CUDA: \"1 device, driver 13.0\", or why there is none.");
}

}  // namespace leat::python
