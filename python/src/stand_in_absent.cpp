// The package's module has nothing of the tests' stand-in for CUDA.

#include "leat/python/module.h"

namespace leat::python {

void bind_stand_in(nanobind::module_& /*module*/) {}

}  // namespace leat::python
