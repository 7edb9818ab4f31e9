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

  /// Makes a dataset of all samples that the tensors hold, perhaps 0. Throws std::invalid_argument,
  /// which names the fields, if there are no tensors, if a tensor does not hold a whole number of
  /// samples, if tensors differ in the number of samples, or if a field has variable length or no
  /// bytes.
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

 private:
  std::string name_;
  std::vector<Field> fields_;
  std::vector<std::span<const std::byte>> values_;
  std::vector<std::unique_ptr<const GuardedRange>> guards_;  // null: not mapped
  std::uint64_t size_ = 0;
  Blocking blocking_ = Blocking::kNever;
};

}  // namespace leat::feeder
