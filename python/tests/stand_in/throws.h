// Exceptions of C++, for the tests of their translation.
#pragma once

#include <nanobind/nanobind.h>

namespace leat::python {

/// Binds throw_(kind) and throw_around(function).
void bind_throws(nanobind::module_& module);

}  // namespace leat::python
