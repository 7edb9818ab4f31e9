// Readers: what a leat.Prefetcher and a leat.DataLoader read Python datasets with.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <vector>

#include "leat/python/module.h"
#include "leat/python/readers/socket_source.h"

namespace leat::python {
namespace nb = nanobind;

void bind_readers(nb::module_& module) {
  nb::class_<SocketSource, feeder::Dataset>(
      module, "Readers", "Readers that run Python code, each behind a socket. Private.",
      nb::is_final())
      .def(nb::init<std::string, std::uint64_t, std::uint64_t, bool, std::size_t,
                    const std::vector<int>&, bool>(),
           nb::arg("name"), nb::arg("size"), nb::arg("digest"), nb::arg("bound"),
           nb::arg("requests"), nb::arg("sockets"), nb::arg("ordered") = false)
      .def_prop_ro("count", &SocketSource::readers);
}

}  // namespace leat::python
