// Which files a source reads. A pattern is one of
//
//   data/train.bin             a file
//   data                       a directory: the files in it whose names end in the extension
//   data/train_*.bin           a glob, as of POSIX fnmatch(3), in any part of the path: * ? [...]
//   data/train_{000..012}.bin  a range of numbers; of as many digits as the longer end has, if one
//                              of the ends begins with 0
//   data/{train,extra}_*.bin   alternatives; they nest
//
// Braces are taken as by bash and by WebDataset's shard lists, and what they name has to be there:
// a gap in a range is an error, not a smaller dataset. Hidden names (.x) are matched by no wildcard
// and are not among a directory's files. What exists is meant by its name, whatever characters are
// in it.
//
// Example
//   leat::feeder::TokenShards shards("data/fineweb_train_*.bin", {.sequence_length = 1024});
//   leat::feeder::TokenShards few({"data/a.bin", "data/b.bin"}, {.sequence_length = 1024});
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace leat::feeder {

/// One pattern or several.
class FilePatterns {
 public:
  // NOLINTBEGIN(google-explicit-constructor): what names a file is a pattern
  FilePatterns(const char* pattern) : patterns_{pattern} {}
  FilePatterns(std::string pattern) : patterns_{std::move(pattern)} {}
  FilePatterns(const std::filesystem::path& pattern) : patterns_{pattern.string()} {}
  FilePatterns(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}
  FilePatterns(std::initializer_list<std::string> patterns) : patterns_(patterns) {}
  FilePatterns(const std::vector<std::filesystem::path>& patterns) {
    for (const std::filesystem::path& pattern : patterns) patterns_.push_back(pattern.string());
  }
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const std::vector<std::string>& all() const noexcept { return patterns_; }
  /// For messages: the pattern; of several, the first and how many more.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> patterns_;
};

/// The files that the patterns name, sorted by the bytes of their paths: the same order on every
/// machine, in every locale, whatever the order of the patterns. A directory's files are those that
/// end in `extension` (".bin"; all that are not hidden if it is empty), not those of directories in
/// it. What a wildcard matches may be a directory too: such are left out.
///
/// Throws leat::Error, with the pattern and what to do, if one names nothing, or a directory
/// without such files; if a directory cannot be read; if what is named is neither a file nor a
/// directory (a link to nothing, a pipe); if a file is named twice, which would count its samples
/// twice; if braces do not match, or stand for more than 1000000 names. Blocks the thread.
[[nodiscard]] std::vector<std::filesystem::path> find_files(const FilePatterns& patterns,
                                                            std::string_view extension);

}  // namespace leat::feeder
