#include <array>
#include <fstream>
#include <string_view>
#include <system_error>

#include "leat/overlap/trace/readers/nsight.h"

namespace overlap::trace {

bool is_sqlite(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;  // a pipe is read but once
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  std::array<char, kMagic.size()> begin{};
  std::ifstream(file, std::ios::binary).read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()) == kMagic;
}

}  // namespace overlap::trace
