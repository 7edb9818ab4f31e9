// Errors of devices, read as their user reads them.
#pragma once

#include <initializer_list>
#include <string_view>

#include "leat/gpu/error.h"
#include "tests/support/texts.h"

namespace leat::support {

/// Fails the test unless `f()` throws a GpuError whose text has all of `parts`.
template <class F, class Parts = std::initializer_list<std::string_view>>
void expect_gpu_error(const F& f, const Parts& parts) {
  expect_throws<gpu::GpuError>(f, parts);
}

}  // namespace leat::support
