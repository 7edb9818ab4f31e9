// Samples in memory: arrays that the program has, with one entry for each sample.
//
// Example
//   std::vector<float> images(1000 * 3 * 32 * 32);
//   std::vector<std::int64_t> labels(1000);
//   using leat::feeder::InMemory;
//   const InMemory data({InMemory::tensor("image", images, {3, 32, 32}),
//                        InMemory::tensor("label", labels)});
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/feeder/dataset.h"

namespace leat::feeder {

class GuardedRange;

/// A dataset over arrays of the program. The arrays must outlive the dataset, and must not change
/// while it is read (PrefetcherOptions::read_across_epochs says when that is). Const functions are
/// thread-safe, and never block unless a tensor is mapped.
class InMemory final : public Dataset {
 public:
  /// One field of all samples. `values` holds the tensors of the samples, one after the other.
  struct Tensor {
    Field field;
    std::span<const std::byte> values;
    /// The values lie in a file that is mapped into memory (mmap). If the file becomes shorter, or
    /// its disk fails, reads of lost bytes throw; without this flag they end the program with
    /// SIGBUS. (Bytes behind the new end, in the file's last page, read as 0.)
    bool is_mapped = false;
    /// Of a ragged array, whose field has a variable length: sample i is rows [offsets[i],
    /// offsets[i + 1]) of the values. The constructor sets the field's shape[0] to the longest.
    std::span<const std::int64_t> offsets = {};
  };

  /// Returns an array as the field `name`, with tensors of shape `shape` (empty: scalars). Keeps a
  /// reference to the array.
  template <std::ranges::contiguous_range R>
    requires std::ranges::sized_range<R> && std::ranges::borrowed_range<R>
  [[nodiscard]] static Tensor tensor(std::string name, R&& values,
                                     std::vector<std::int64_t> shape = {}) {
    using Element = std::ranges::range_value_t<R>;
    return {{std::move(name), kDTypeOf<Element>, std::move(shape)},
            std::as_bytes(
                std::span<const Element>(std::ranges::data(values), std::ranges::size(values)))};
  }

  /// Returns a ragged array as the field `name`: sample i is rows [offsets[i], offsets[i + 1]) of
  /// `values`, each of shape `row` (empty: a scalar). Keeps references to both.
  template <std::ranges::contiguous_range R>
    requires std::ranges::sized_range<R> && std::ranges::borrowed_range<R>
  [[nodiscard]] static Tensor ragged(std::string name, R&& values,
                                     std::span<const std::int64_t> offsets,
                                     std::vector<std::int64_t> row = {}) {
    row.insert(row.begin(), 1);
    Tensor made = tensor(std::move(name), std::forward<R>(values), std::move(row));
    made.field.variable_length = true;
    made.offsets = offsets;
    return made;
  }

  /// Makes a dataset of all samples that the tensors hold, perhaps 0. Throws std::invalid_argument,
  /// which names the fields, if there are no tensors, if a tensor does not hold a whole number of
  /// samples, if tensors differ in the number of samples, if a field has no bytes, or has variable
  /// length and no offsets, or if offsets fall or lead beyond the values.
  explicit InMemory(std::vector<Tensor> tensors, std::string name = "in memory");
  ~InMemory() override;

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  /// Copies. (A Prefetcher checks that bools are 0 or 1.) Throws leat::Error if `index` >= size()
  /// or if a mapped file has lost the sample, std::invalid_argument if the fields of `out` differ.
  void read(std::uint64_t index, Sample& out) const override;
  /// Announces the bytes of mapped tensors.
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override;
  /// kSeldom with a mapped tensor, else kNever.
  [[nodiscard]] Blocking blocking() const noexcept override { return blocking_; }
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index,
                                                  std::size_t field) const override;

 private:
  // The bytes of a sample.
  [[nodiscard]] std::span<const std::byte> bytes_of(std::size_t field,
                                                    std::uint64_t index) const noexcept;

  std::string name_;
  std::vector<Field> fields_;
  std::vector<std::span<const std::byte>> values_;
  std::vector<std::span<const std::int64_t>> offsets_;       // empty: not ragged
  std::vector<std::unique_ptr<const GuardedRange>> guards_;  // null: not mapped
  std::uint64_t size_ = 0;
  Blocking blocking_ = Blocking::kNever;
};

}  // namespace leat::feeder
