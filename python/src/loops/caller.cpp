#include "leat/python/loops/caller.h"

#include <algorithm>
#include <vector>

#include "leat/python/calls/text.h"

namespace leat::python {
namespace nb = nanobind;

namespace {

std::string folder_of(const char* module) {
  const std::string file = to_text(nb::module_::import_(module).attr("__file__"));
  return file.substr(0, file.rfind('/') + 1);
}

// Without C++'s guard for what is static: who waits for that has the GIL, which imports give up.
const std::vector<std::string>& folders() {
  static const std::vector<std::string>* known = nullptr;
  if (known == nullptr) known = new std::vector{folder_of("leat"), folder_of("os")};
  return *known;
}

bool is_installed(const std::string& file) {
  return file.starts_with("<frozen ") || file.find("/site-packages/") != std::string::npos ||
         file.find("/dist-packages/") != std::string::npos ||
         std::ranges::any_of(folders(), [&](const auto& one) { return file.starts_with(one); });
}

std::string file_of(nb::handle code) { return to_text(code.attr("co_filename")); }

}  // namespace

Place Caller::place() {
  PyFrameObject* const innermost = PyEval_GetFrame();
  if (innermost == nullptr) return {};
  const nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(innermost)));
  if (!code.is(code_)) {
    file_ = file_of(code);
    is_installed_ = is_installed(file_);
    code_ = code;
  }
  if (is_installed_) {
    nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(innermost)).attr("f_back");
    for (; !frame.is_none(); frame = frame.attr("f_back")) {
      std::string file = file_of(frame.attr("f_code"));
      if (is_installed(file)) continue;
      return {.file = std::move(file),
              .line = PyFrame_GetLineNumber(reinterpret_cast<PyFrameObject*>(frame.ptr()))};
    }
  }
  return {.file = file_, .line = PyFrame_GetLineNumber(innermost)};
}

int Caller::traverse(visitproc visit, void* arg) const {
  Py_VISIT(code_.ptr());
  return 0;
}

}  // namespace leat::python
