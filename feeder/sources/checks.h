// Checks and error texts that several sources share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "leat/feeder/dataset.h"

namespace leat::feeder {

/// Advice at the end of several errors.
inline constexpr const char* kFetchAgain = "fetch the file again and compare its checksum";

/// Advice for a shard that seems to lack something.
inline constexpr const char* kAcceptShort = "set the option accept_short_shards";

/// Advice after a failure to open or read a file: "check that <what> may be read".
[[nodiscard]] std::string advice_for_unreadable(std::string_view what = "it is a file and");

/// A tar archive's unit: its headers have this many bytes, its data is padded to a multiple.
inline constexpr std::uint64_t kTarBlock = 512;

/// A name for a message: control characters become '?'.
[[nodiscard]] std::string printable(std::string_view name);

/// Throws leat::Error: "leat: cannot read <file>: <problem>; <advice>".
[[noreturn]] void cannot_read(const std::filesystem::path& file, const std::string& problem,
                              const std::string& advice);

/// Throws OutOfMemory, an Error, with such a text.
[[noreturn]] void lacks_memory(const std::filesystem::path& file, std::uint64_t bytes,
                               const std::string& problem, const std::string& advice);

/// Returns the beginning of a long name, printable.
[[nodiscard]] std::string start_of(std::string_view name);

/// Throws leat::Error: "leat: no files from "<pattern>": <problem>; <advice>".
[[noreturn]] void no_files(std::string_view pattern, const std::string& problem,
                           const std::string& advice);

/// Throws as no_files() does if `error` is the errno of a missing file, and `name`, a path or a
/// pattern, is an address that other loaders read: "s3://bucket/x.tar", "pipe:cat x.tar",
/// "simplecache::gs://x.tar".
void refuse_address(std::string_view name, int error);

/// Returns the bytes of a field of fixed length. Throws std::invalid_argument, with `of_what`, if
/// the length of the field is variable, an extent is below 1, or the product is too large.
[[nodiscard]] std::uint64_t fixed_bytes(const Field& field, const char* of_what);

/// Returns the bytes of a sample of these fields. Throws as above.
[[nodiscard]] std::uint64_t fixed_bytes(std::span<const Field> fields, const char* of_what);

/// Throws leat::Error if `data` has no sample `index`.
void check_index(const Dataset& data, std::uint64_t index);

/// As check_index(), and throws std::invalid_argument if the fields of `out` differ in number, type
/// or size (names may differ).
void check_read(const Dataset& data, std::uint64_t index, const Sample& out);

}  // namespace leat::feeder
