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
#include <vector>

#include "leat/feeder/sources/mapped_file.h"

namespace leat::feeder {

/// What the header says of the values; whether it is true is not checked here. A value.
struct NpyHeader {
  std::string descr;  ///< the type: "<u2"; as it begins if that is no string
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< where the values begin; not beyond the end of the file
};

/// Reads the header of a file that begins as a .npy file (known_formats.h). Throws leat::Error,
/// with the file and the byte, for another version, and for a header that is cut off or damaged.
[[nodiscard]] NpyHeader read_npy_header(const MappedFile& file);

}  // namespace leat::feeder
