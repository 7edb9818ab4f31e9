// `_core.Departure`: how a loop over an iterator that is written in Python was left.
//
// A `for` drops its iterator in the moment in which it is left; an exception that ends the loop is
// then pending. Python code cannot see it: the interpreter hides it from __del__. An iterator that
// holds a Departure can: it is dropped in the same moment.
#include <nanobind/nanobind.h>

#include <utility>

#include "leat/python/calls/collected.h"
#include "leat/python/calls/waiting.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

namespace {

class Departure {
 public:
  explicit Departure(nb::callable left) : left_(std::move(left)) {}
  ~Departure() {
    if (!left_.is_valid() || is_exiting()) return;
    // The end of a generator (tqdm) is none: it comes by GeneratorExit.
    const bool by_exception =
        PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_GeneratorExit) == 0;
    const nb::error_scope pending;
    try {
      left_(!by_exception);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("leat: a loop was left");
    }
  }
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(left_.ptr());
    return 0;
  }
  void clear() noexcept { left_.reset(); }

 private:
  nb::callable left_;
};

}  // namespace

void bind_departure(nb::module_& module) {
  nb::class_<Departure>(module, "Departure", nb::type_slots(kCollected<Departure>), nb::is_final())
      .def(nb::init<nb::callable>(), nb::arg("left"));
}

}  // namespace leat::python
