// Patterns that name the files of a source. A pattern is one of
//
//   data/train.bin             a file
//   data                       a directory: the files in it whose names end in the extension
//   data/train_*.bin           a glob, as of POSIX fnmatch(3), in any part of the path: * ? [...]
//   data/train_{000..012}.bin  a range of numbers; of as many digits as the longer end has, if one
//                              of the ends begins with 0. {0..9..3}: every third. {a..e}: letters
//   data/{train,extra}_*.bin   alternatives; they nest
//   data/run\[1\]/\{a,b\}.bin   the file {a,b}.bin in the folder run[1]: a backslash takes the
//                              meaning of the character behind it
//
// Braces work as in bash and in WebDataset's shard lists: braces without a comma or a range stand
// for themselves. Each file that braces name has to exist: a gap in a range is an error. Wildcards
// and directories leave out hidden files (.x). A pattern that is the name of an existing file or
// directory stands for it, whatever characters are in the name.
//
// Not supported: addresses of other loaders (https://..., s3://..., pipe:...). Download or mount.
//
// Example
//   leat::feeder::TokenShards shards("data/fineweb_train_*.bin", {.sequence_length = 1024});
//   leat::feeder::TokenShards few({"data/a.bin", "data/b.bin"}, {.sequence_length = 1024});
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace leat::feeder {

/// One pattern or several. A value.
class FilePatterns {
 public:
  // NOLINTBEGIN(google-explicit-constructor): the name of a file is a pattern
  /// From one pattern or a list of patterns.
  FilePatterns(const char* pattern) : patterns_{pattern} {}
  FilePatterns(std::string pattern) : patterns_{std::move(pattern)} {}
  FilePatterns(const std::filesystem::path& pattern) : patterns_{pattern.string()} {}
  FilePatterns(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}
  FilePatterns(std::initializer_list<std::string> patterns) : patterns_(patterns) {}
  FilePatterns(const std::vector<std::filesystem::path>& patterns) {
    for (const std::filesystem::path& pattern : patterns) patterns_.push_back(pattern.string());
  }
  // NOLINTEND(google-explicit-constructor)

  /// All patterns, in the order given.
  [[nodiscard]] const std::vector<std::string>& all() const noexcept { return patterns_; }
  /// Returns a text for messages: the pattern, or the first one and how many more there are.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> patterns_;
};

/// Returns the files that the patterns name, sorted by the bytes of their paths: the order is the
/// same on every machine, in every locale, for every order of the patterns. A directory stands for
/// its own files that end in `extension` (".bin"; if empty, for all that are not hidden), without
/// the files of its subdirectories. Directories that a wildcard matches are left out.
///
/// Throws leat::Error, with the pattern and advice, if a pattern names nothing, or a directory
/// without such files; if a directory cannot be read; if a name is neither a file nor a directory
/// (a broken link, a pipe); if a file is named twice; if braces stand for more than 1,000,000
/// names; if a pattern is an address (s3://). Blocks the thread.
[[nodiscard]] std::vector<std::filesystem::path> find_files(const FilePatterns& patterns,
                                                            std::string_view extension);

/// Computes the digest of a source of files (Dataset::digest()) from their names, without folders,
/// and their sizes, in order. A value.
class FilesDigest {
 public:
  /// Adds a file of `bytes` bytes.
  void add(const std::filesystem::path& file, std::uint64_t bytes);
  /// Adds a name as it is, with a number that belongs to it.
  void add_name(std::string_view name, std::uint64_t number);
  /// Returns the digest, which is never 0.
  [[nodiscard]] std::uint64_t value() const noexcept { return sum_ == 0 ? 1 : sum_; }

 private:
  std::uint64_t sum_ = 0xcbf29ce484222325;  // FNV-1a, 64 bits
};

}  // namespace leat::feeder
