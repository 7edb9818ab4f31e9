// Formats that are recognised by a file's first bytes, so that no such file is taken for raw data.
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

/// Returns the format of a file of `size` bytes that begins with `start`: its first 512 bytes, if
/// it has as many. Null if the format is not known.
[[nodiscard]] const KnownFormat* known_format(std::span<const std::byte> start,
                                              std::uint64_t size) noexcept;

/// Returns the format of a mapped file. Throws as MappedFile::read() does.
[[nodiscard]] const KnownFormat* known_format(const MappedFile& file);

/// Returns whether `format` is NumPy's, which npy.h reads.
[[nodiscard]] bool is_npy(const KnownFormat* format) noexcept;

}  // namespace leat::feeder
