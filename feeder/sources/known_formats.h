// Formats that are known by the first bytes of a file, so that none is taken for raw data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "leat/feeder/sources/mapped_file.h"

namespace leat::feeder {

/// A format, by its magic bytes: four at least.
struct KnownFormat {
  std::string_view name;   ///< behind "it is": "a .npy file", "compressed with gzip"
  std::string_view magic;  ///< empty: there is more to it than that
  std::size_t at = 0;      ///< where the magic bytes are
};

/// The format of a file of `size` bytes that begins with the bytes `start`: 512, if it has as many.
/// Null for none of those that are known.
[[nodiscard]] const KnownFormat* known_format(std::span<const std::byte> start,
                                              std::uint64_t size) noexcept;

/// The same, of a file that is mapped. Throws as MappedFile::read() does.
[[nodiscard]] const KnownFormat* known_format(const MappedFile& file);

/// Whether it is NumPy's format, which npy.h reads.
[[nodiscard]] bool is_npy(const KnownFormat* format) noexcept;

}  // namespace leat::feeder
