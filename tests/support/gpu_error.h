// Errors of devices, read as their user reads them.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "leat/gpu/error.h"

namespace leat::support {

/// Fails the test unless `f()` throws a GpuError whose text has all of `parts`.
template <class F>
void expect_gpu_error(const F& f, const std::vector<std::string_view>& parts) {
  try {
    f();
    ADD_FAILURE() << "no error";
  } catch (const gpu::GpuError& e) {
    for (const std::string_view part : parts) {
      EXPECT_NE(std::string_view(e.what()).find(part), std::string_view::npos) << e.what();
    }
  }
}

}  // namespace leat::support
