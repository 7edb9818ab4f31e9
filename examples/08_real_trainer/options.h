// The command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace trainer {

struct Options {
  std::string device = "host";
  std::string data = "examples/data/mnist";
  std::uint64_t epochs = 2;
  std::size_t batch_size = 100;
  std::uint64_t seed = 1;
  std::size_t processes = 1;
  std::string checkpoint = {};  // empty: none is written
  std::uint64_t checkpoint_every = 500;
  std::string resume = {};  // empty: from the beginning
  std::uint64_t stop_after = std::numeric_limits<std::uint64_t>::max();
  std::string log = {};  // empty: none
  bool help = false;
};

/// Throws std::invalid_argument, saying which argument and what is expected.
[[nodiscard]] Options parse(int argc, char** argv);
[[nodiscard]] const char* usage() noexcept;

}  // namespace trainer
