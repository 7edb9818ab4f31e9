#include "leat/python/calls/text.h"

namespace leat::python {
namespace nb = nanobind;

nb::str to_str(std::string_view text) {
  PyObject* const made =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (made == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(made);
}

std::string to_text(nb::handle object) {
  const nb::object text = nb::steal(PyObject_Str(object.ptr()));
  if (!text) throw nb::python_error();
  const nb::object bytes =
      nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes) throw nb::python_error();
  const auto& encoded = nb::cast<nb::bytes>(bytes);
  return {encoded.c_str(), encoded.size()};
}

}  // namespace leat::python
