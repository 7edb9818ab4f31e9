// Binds leat.Tensor. leat/_core.pyi says more of each function.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>
#include <cstdint>
#include <string>

#include "leat/python/batches/tensor.h"
#include "leat/python/module.h"

namespace leat::python {
namespace {

namespace nb = nanobind;

nb::tuple shape_of(const Tensor& tensor) {
  nb::list extents;
  for (const std::int64_t extent : tensor.info().shape) extents.append(extent);
  return nb::tuple(extents);
}

nb::object dtype_of(const Tensor& tensor) {
  return nb::str(feeder::to_string(tensor.info().dtype));
}

}  // namespace

void bind_tensor(nb::module_& module) {
  static const std::array<PyType_Slot, 2> slots{
      {{Py_bf_getbuffer, reinterpret_cast<void*>(&Tensor::get_buffer)}, {0, nullptr}}};
  nb::class_<Tensor>(
      module, "Tensor",
      "A tensor of a batch, for DLPack and, on the CPU, the buffer protocol. All that "
      "is made of it has a share of the batch's slot.",
      nb::type_slots(slots.data()), nb::is_weak_referenceable(), nb::is_final(), nb::pooled())
      .def_prop_ro(
          "name", [](const Tensor& tensor) { return tensor.info().name; },
          "The name of the tensor's field.")
      .def_prop_ro("dtype", &dtype_of, "The type of its elements: \"uint8\", \"bfloat16\", ...")
      .def_prop_ro("shape", &shape_of, "(rows, shape of the field ...), row-major.")
      .def_prop_ro("ndim", [](const Tensor& tensor) { return tensor.info().shape.size(); })
      .def_prop_ro("nbytes", [](const Tensor& tensor) { return tensor.info().bytes(); })
      .def_prop_ro("device", [](const Tensor& tensor) { return tensor.memory().device_name(); })
      .def("copy", &Tensor::copy,
           "A tensor on the same device in memory of its own, which shares no slot.")
      .def(
          "__deepcopy__", [](const Tensor& tensor, nb::handle) { return tensor.copy(); },
          nb::arg().none())
      .def("__reduce__",
           [](const Tensor& tensor) -> nb::object {
             throw nb::type_error(("leat: tensor " + tensor.info().name +
                                   " cannot be pickled: pickle what a framework makes of it, as by "
                                   "framework=\"numpy\" or \"torch\"")
                                      .c_str());
           })
      .def("_capsule", &Tensor::capsule)
      .def("__dlpack__", &Tensor::dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none(),
           "A DLPack capsule, for `stream` on a GPU; versioned if max_version is (1, 0) or more.")
      .def("__dlpack_device__",
           [](const Tensor& tensor) {
             const auto place = tensor.memory().place();
             return nb::make_tuple(static_cast<int>(place.device_type), place.device_id);
           })
      .def("__array__", &Tensor::array, nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def("__len__", [](const Tensor& tensor) { return tensor.info().shape[0]; })
      .def("__repr__", [](const Tensor& tensor) {
        return "<leat.Tensor " + tensor.info().text() + " on " + tensor.memory().device_name() +
               (tensor.memory().is_copy() ? ", a copy>" : ">");
      });
}

}  // namespace leat::python
