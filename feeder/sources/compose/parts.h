// What the datasets of datasets share: checks of their parts, reads of them, digests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/csp/base/random.h"
#include "leat/feeder/dataset.h"

namespace leat::feeder {

/// Sets the random numbers of mixtures, of weighted draws and of splits apart from each other's and
/// from those of the order and of Random. `name` has at most 8 letters. Never to be changed.
[[nodiscard]] constexpr std::uint64_t seed_for(std::uint64_t seed, std::string_view name) noexcept {
  std::uint64_t tag = 0;
  for (const char letter : name) tag = tag << 8 | static_cast<unsigned char>(letter);
  return mix(seed ^ tag);
}

/// Throws std::invalid_argument: "leat: <of>: <why>".
[[noreturn]] void refuse_composition(std::string_view of, const std::string& why);

/// Throws std::invalid_argument if samples of `part` cannot be read one by one. `which` names it:
/// "part 1".
void check_part(const Dataset& part, std::string_view of, std::string_view which);

/// Computes a dataset's digest from what it is composed of. A value.
class ComposedDigest {
 public:
  /// `tag` differs for each kind of dataset.
  explicit ComposedDigest(std::string_view tag) noexcept;
  /// Adds a number.
  ComposedDigest& add(std::uint64_t number) noexcept;
  /// Adds a part: its digest and its size.
  ComposedDigest& add(const Dataset& part) noexcept { return add(part.size()).add(part.digest()); }
  /// Returns the digest, which is never 0.
  [[nodiscard]] std::uint64_t value() const noexcept { return sum_ == 0 ? 1 : sum_; }

 private:
  std::uint64_t sum_ = 0xcbf29ce484222325;  // FNV-1a, 64 bits
};

/// Reads samples of a part into a sample of the dataset that is composed. A friend of Sample.
class PartSample {
 public:
  /// Reads sample `index` of `part`, whose fields are the first ones of `out`, or shorter in their
  /// first extents. The read is told `epoch`.
  static void read(const Dataset& part, std::uint64_t index, Sample& out, std::uint64_t epoch);
};

/// Datasets whose samples have the same fields. Immutable.
class PartList {
 public:
  /// `of` names what is composed: "Concat". Throws std::invalid_argument if there is no part, if
  /// fields differ, and as check_part() does.
  PartList(std::vector<const Dataset*> parts, std::string_view of);

  [[nodiscard]] std::size_t size() const noexcept { return parts_.size(); }
  [[nodiscard]] const Dataset& operator[](std::size_t part) const noexcept { return *parts_[part]; }
  /// Returns the fields of all; of variable length, the longest.
  [[nodiscard]] std::span<const Field> fields() const noexcept { return fields_; }
  /// Returns that of the part that blocks most.
  [[nodiscard]] Blocking blocking() const noexcept { return blocking_; }
  /// Returns how many samples all have. Throws std::invalid_argument if they are 2^64 or more.
  [[nodiscard]] std::uint64_t samples() const;
  /// "part 1, "photos"".
  [[nodiscard]] std::string name(std::size_t part) const;
  /// Returns where sample `index` of the part comes from (Dataset::origin).
  [[nodiscard]] std::string origin(std::size_t part, std::uint64_t index, std::uint64_t seed,
                                   std::uint64_t epoch) const;
  /// Reads a sample of the part. The read is told `epoch`.
  void read(std::size_t part, std::uint64_t index, Sample& out, std::uint64_t epoch) const;

 private:
  std::string_view of_;
  std::vector<const Dataset*> parts_;
  std::vector<Field> fields_;
  std::vector<bool> is_shorter_;  // by part: whether a field of it is shorter than fields_
  Blocking blocking_ = Blocking::kNever;
};

/// Returns where sample `index` of `from` comes from, for the origin of what is composed of it:
/// "number 3 of "photos"", and what `from` says of it.
[[nodiscard]] std::string origin_in(const Dataset& from, std::string_view name, std::uint64_t index,
                                    std::uint64_t seed, std::uint64_t epoch);

}  // namespace leat::feeder
