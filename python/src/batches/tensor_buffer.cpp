// leat.Tensor for NumPy and memoryview: the buffer protocol, and `__array__`.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <optional>
#include <string>

#include "leat/python/batches/tensor.h"
#include "leat/python/calls/waiting.h"

namespace leat::python {
namespace {

namespace nb = nanobind;
using feeder::DType;

// The buffer protocol's letter for the type (Python's module struct); null if it has none.
const char* format_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kInt8: return "b";
    case DType::kInt16: return "h";
    case DType::kInt32: return "i";
    case DType::kInt64: return "l";
    case DType::kUint8: return "B";
    case DType::kUint16: return "H";
    case DType::kUint32: return "I";
    case DType::kUint64: return "L";
    case DType::kFloat16: return "e";
    case DType::kBFloat16: return nullptr;
    case DType::kFloat32: return "f";
    case DType::kFloat64: return "d";
    case DType::kBool: return "?";
  }
  return nullptr;
}

}  // namespace

nb::object Tensor::array(nb::handle self, nb::handle dtype, nb::handle copy) {
  const InCall inside;
  const auto& tensor = nb::cast<const Tensor&>(self);
  const std::optional<bool> wants_copy = copy_argument(copy, "__array__");
  if (!is_cpu(tensor.memory_->place())) {
    throw nb::type_error(("leat: " + tensor.info_.name + " lies on " +
                          tensor.memory_->device_name() +
                          ": numpy.from_dlpack(tensor, device=\"cpu\") copies it to the CPU")
                             .c_str());
  }
  if (format_of(tensor.info_.dtype) == nullptr) {
    throw nb::type_error(("leat: " + tensor.info_.name + " has the type " +
                          feeder::to_string(tensor.info_.dtype) + ", which NumPy does not have")
                             .c_str());
  }
  const nb::object view = nb::steal(PyMemoryView_FromObject(self.ptr()));
  if (!view.is_valid()) throw nb::python_error();
  const nb::module_ numpy = nb::module_::import_("numpy");
  nb::object array = numpy.attr("asarray")(view);
  if (wants_copy == true) return numpy.attr("array")(array, dtype, nb::arg("copy") = true);
  if (dtype.is_none() || numpy.attr("dtype")(dtype).equal(array.attr("dtype"))) return array;
  if (!wants_copy.has_value()) return numpy.attr("asarray")(array, dtype);
  throw nb::value_error(("leat: " + tensor.info_.name + " has another type than " +
                         nb::cast<std::string>(nb::str(dtype)) +
                         ", which needs a copy: pass copy=None")
                            .c_str());
}

int Tensor::get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  view->obj = nullptr;
  if (!nb::inst_ready(self)) {
    PyErr_SetString(PyExc_BufferError, "leat: a Tensor that no batch has made has no memory");
    return -1;
  }
  const Tensor& tensor = *nb::inst_ptr<Tensor>(self);
  const char* const format = format_of(tensor.info_.dtype);
  try {
    if (!is_cpu(tensor.memory_->place())) {
      PyErr_Format(PyExc_BufferError, "leat: %s lies on %s, whose memory the CPU cannot read",
                   tensor.info_.name.c_str(), tensor.memory_->device_name().c_str());
      return -1;
    }
    tensor.memory_->require_bound();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
    return -1;
  }
  if (format == nullptr) {
    PyErr_Format(PyExc_BufferError, "leat: %s: the buffer protocol has no type %s",
                 tensor.info_.name.c_str(), feeder::to_string(tensor.info_.dtype));
    return -1;
  }
  const bool has_shape = (flags & PyBUF_ND) == PyBUF_ND;
  *view = {.buf = tensor.data_,
           .obj = Py_NewRef(self),
           .len = static_cast<Py_ssize_t>(tensor.info_.bytes()),
           .itemsize = static_cast<Py_ssize_t>(feeder::size_of(tensor.info_.dtype)),
           .readonly = 0,
           .ndim = static_cast<int>(tensor.strides_.size()),
           .format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr,
           .shape = nullptr,
           .strides = nullptr,
           .suboffsets = nullptr,
           .internal = nullptr};
  // Py_ssize_t is std::int64_t here. The arrays live as long as `self`, hence as the view.
  if (has_shape) view->shape = const_cast<Py_ssize_t*>(tensor.info_.shape.data());
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) {
    view->strides = const_cast<Py_ssize_t*>(tensor.strides_.data());
  }
  return 0;
}

}  // namespace leat::python
