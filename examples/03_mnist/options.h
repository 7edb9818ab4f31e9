// The trainer's command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mnist {

struct Options {
  std::string device = "auto";
  std::string data = "examples/data/mnist";
  std::uint64_t epochs = 3;
  std::size_t batch_size = 64;
  std::size_t prefetch_depth = 2;
  std::size_t workers = 1;
  std::uint64_t seed = 1;
  float learning_rate = 0.04F;
  float min_accuracy = 0.0F;  // percent
  bool help = false;
};

/// Throws std::invalid_argument, saying which argument and what is expected.
[[nodiscard]] Options parse(int argc, char** argv);
[[nodiscard]] const char* usage() noexcept;

}  // namespace mnist
