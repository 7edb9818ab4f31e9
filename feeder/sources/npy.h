// The header of NumPy's files, .npy, of the versions 1.0, 2.0 and 3.0:
//
//    byte 0      \x93NUMPY, then the version: two bytes
//    byte 8      the length of the text, little-endian: two bytes in version 1.0, else four
//                the text, padded with blanks, a literal of Python:
//                {'descr': '<u2', 'fortran_order': False, 'shape': (1000,), }
//                the values
//
// Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/sources/mapped_file.h"

namespace leat::feeder {

/// What the header says of the values; whether it is true is not checked here. A value.
struct NpyHeader {
  /// The type: "<u2", or, as it stands, a list of members: "[('x', '<f4', (2,)), ('y', '|u1')]".
  std::string descr;
  bool is_fortran = false;  ///< the first index runs fastest
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< where the values begin; not beyond the end of the file
};

/// Takes a literal of Python from the front of a list of them: up to a comma, a colon or a closing
/// bracket, which is taken, too, but for those within strings and brackets. Without blanks around
/// it. Never fails.
[[nodiscard]] std::string_view take_literal(std::string_view& text);
/// Returns the content of a string's literal as it stands; another literal unchanged.
[[nodiscard]] std::string_view unquoted(std::string_view literal);

/// Reads the header of a file that begins as a .npy file (known_formats.h). Throws leat::Error,
/// with the file and the byte, for another version, and for a header that is cut off or damaged.
[[nodiscard]] NpyHeader read_npy_header(const MappedFile& file);

}  // namespace leat::feeder
