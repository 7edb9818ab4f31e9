// Memory of the program that may lie in mapped files, whoever has mapped them: is it, and has the
// file lost it since?
//
// Example
//   FileMappings mappings;                       // as the process has them now
//   std::vector<std::size_t> files;
//   mappings.add(array, files);                  // files.empty(): it lies in no file
//   std::vector<std::unique_ptr<const GuardedRange>> guards = mappings.guard();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "leat/feeder/sources/guarded_range.h"

namespace leat::feeder {

/// The mappings of files in this process, read once. For one thread.
class FileMappings {
 public:
  /// Reads /proc/self/maps. Throws leat::Error if it cannot be opened.
  FileMappings();

  /// Notes that these bytes will be read, and guards all of their mappings for as long as this
  /// lives: they may be read at once. Adds the numbers of the mappings that they lie in to
  /// `found`, which has each once; none for bytes that lie in no file. Constant time if they are
  /// where the last ones were.
  void add(std::span<const std::byte> bytes, std::vector<std::size_t>& found);
  /// Returns whether a read has met bytes that their file has lost, since they were added.
  [[nodiscard]] bool has_lost() const noexcept;
  /// Guards all pages that were added, for as long as the result lives, by the number of their
  /// mapping: null where nothing was added. Only guard memory that stays mapped so long.
  [[nodiscard]] std::vector<std::unique_ptr<const GuardedRange>> guard() const;

 private:
  struct Mapping {
    std::uintptr_t begin;
    std::uintptr_t end;
    std::uintptr_t from;  // of what was added
    std::uintptr_t to;
    std::unique_ptr<const GuardedRange> early;  // of all of it
  };
  std::vector<Mapping> mappings_;  // ascending
  std::size_t last_ = 0;
};

}  // namespace leat::feeder
