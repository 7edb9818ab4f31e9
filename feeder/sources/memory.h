// Samples that are in memory already: arrays of one's own, one entry a sample.
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

/// A dataset over arrays that the user keeps, for as long as this lives, and does not change while
/// it is read. Everything is const and thread-safe; nothing blocks.
class InMemory final : public Dataset {
 public:
  /// One field of all samples: `values` are their tensors, one after the other.
  struct Tensor {
    Field field;
    std::span<const std::byte> values;
  };

  /// The array as the field `name`, whose tensors have this shape (without one: scalars).
  template <std::ranges::contiguous_range R>
    requires std::ranges::sized_range<R> && std::ranges::borrowed_range<R>
  [[nodiscard]] static Tensor tensor(std::string name, R&& values,
                                     std::vector<std::int64_t> shape = {}) {
    using Element = std::ranges::range_value_t<R>;
    return {{std::move(name), kDTypeOf<Element>, std::move(shape)},
            std::as_bytes(
                std::span<const Element>(std::ranges::data(values), std::ranges::size(values)))};
  }

  /// As many samples as the tensors hold; none is fine. Throws std::invalid_argument, naming the
  /// field or both, if there are no tensors, if one's values are not a whole number of samples, if
  /// two hold different numbers of them, and for a field of variable length or of no bytes.
  explicit InMemory(std::vector<Tensor> tensors, std::string name = "in memory");

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  /// Copies. Throws leat::Error if `index` >= size(), std::invalid_argument if `out` is of other
  /// fields.
  void read(std::uint64_t index, Sample& out) const override;

 private:
  std::string name_;
  std::vector<Field> fields_;
  std::vector<std::span<const std::byte>> values_;
  std::uint64_t size_ = 0;
};

}  // namespace leat::feeder
