// Directories and files of tests.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/temporary_directory.h"

namespace leat::comm::support {

using leat::support::TemporaryDirectory;

/// The file's bytes; none if it is not there.
[[nodiscard]] inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace leat::comm::support
