// Headers of NumPy's files, good and bad.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/feeder/sources/web_files.h"

namespace leat::feeder {

// A .npy file's header of version `major`.0, with blanks up to a multiple of 64 bytes.
inline Bytes npy_header(const std::string& text, int major = 1) {
  const std::size_t begin = major == 1 ? 10 : 12;
  const std::size_t length = (begin + text.size() + 1 + 63) / 64 * 64 - begin;
  Bytes bytes = bytes_of(std::string("\x93NUMPY") + static_cast<char>(major) + '\0');
  bytes = bytes + first(little_endian(static_cast<std::uint32_t>(length)), begin - 8);
  return bytes + bytes_of(text + std::string(length - 1 - text.size(), ' ') + "\n");
}

inline std::string npy_text(const std::string& descr, const std::string& shape,
                            const std::string& order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

}  // namespace leat::feeder
