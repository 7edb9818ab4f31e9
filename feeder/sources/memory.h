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
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/feeder/dataset.h"

namespace leat::feeder {

/// A dataset over arrays of the program. The arrays must outlive the dataset, and must not change
/// while it is read. Const functions are thread-safe and never block.
class InMemory final : public Dataset {
 public:
  /// One field of all samples. `values` holds the tensors of the samples, one after the other.
  struct Tensor {
    Field field;
    std::span<const std::byte> values;
  };

  /// An array as the field `name`, whose tensors have the shape `shape` (empty: scalars). Keeps a
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

  /// A dataset of as many samples as the tensors hold, which may be 0. Throws
  /// std::invalid_argument, which names the fields, if there are no tensors, if a tensor does not
  /// hold a whole number of samples, if two tensors hold different numbers of samples, or if a
  /// field has variable length or no bytes.
  explicit InMemory(std::vector<Tensor> tensors, std::string name = "in memory");

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  /// Copies. Throws leat::Error if `index` >= size(), std::invalid_argument if the fields of `out`
  /// differ.
  void read(std::uint64_t index, Sample& out) const override;

 private:
  std::string name_;
  std::vector<Field> fields_;
  std::vector<std::span<const std::byte>> values_;
  std::uint64_t size_ = 0;
};

}  // namespace leat::feeder
