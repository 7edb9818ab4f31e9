// IDX: arrays of bytes with their shape, the format of the MNIST family of datasets.
//
//   byte 0      2 bytes   0
//   byte 2      1 byte    type of the elements: 0x08, unsigned bytes (others are not read here)
//   byte 3      1 byte    number of dimensions, d
//   byte 4      4 d bytes extents, 32 bits each, big-endian; the last one varies fastest
//   byte 4+4d             the elements, and nothing after them
//
// The first four bytes together are the magic number: 0x00000803 for images, 0x00000801 for labels.
// The file may be compressed with gzip; its first bytes decide that, not its name.
//
// Source: Y. LeCun, C. Cortes, C. J. C. Burges, "The MNIST database of handwritten digits",
// http://yann.lecun.com/exdb/mnist/ ("the IDX file format"). gzip: RFC 1952.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace leat::feeder {

/// An array of unsigned bytes.
struct IdxArray {
  std::vector<std::size_t> shape;    // outermost first: {60000, 28, 28}
  std::vector<std::uint8_t> values;  // row-major; as many as the product of the shape
};

/// Reads the whole file, which has to hold `dimensions` (1 to 255) dimensions of unsigned bytes.
/// Throws leat::Error, with the file and where in it, if the file is missing, unreadable, of
/// another type or rank, cut off, corrupt (gzip's checksum is verified) or longer than its header
/// says. Allocates no more than the file can hold, whatever the header claims.
/// Thread-safe; blocks the thread while it reads.
[[nodiscard]] IdxArray read_idx(const std::filesystem::path& file, unsigned dimensions);

}  // namespace leat::feeder
