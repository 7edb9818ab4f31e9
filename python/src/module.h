// What a file of the extension offers to module.cpp: one function, which binds that file's part.
#pragma once

#include <nanobind/nanobind.h>

namespace leat::python {

/// devices() and cuda_status().
void bind_devices(nanobind::module_& module);

}  // namespace leat::python
