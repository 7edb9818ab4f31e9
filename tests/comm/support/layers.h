// A worker's parameters in host memory, for tests of ParameterServer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "leat/comm/parameter_server.h"

namespace leat::comm::support {

/// Layers of so many floats each, "layer 0" and so on; all are 0.
struct Layers {
  explicit Layers(const std::vector<std::size_t>& counts) {
    for (const std::size_t count : counts) {
      weights.emplace_back(count, 0.0F);
      gradients.emplace_back(count, 0.0F);
    }
  }
  /// They borrow the layers.
  [[nodiscard]] std::vector<Parameter> parameters() {
    const auto span = [](std::vector<float>& values) {
      return gpu::DeviceSpan(values.data(), values.size() * sizeof(float));
    };
    std::vector<Parameter> all;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      all.push_back({.name = "layer " + std::to_string(i),
                     .weights = span(weights[i]),
                     .gradient = span(gradients[i])});
    }
    return all;
  }
  std::vector<std::vector<float>> weights, gradients;
};

}  // namespace leat::comm::support
