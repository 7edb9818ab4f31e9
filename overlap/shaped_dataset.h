// A dataset without files that has the sizes and reading times of a shape.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/overlap/shape.h"

namespace overlap {

/// Batches of a shape's size, in sequential order. Reading a batch takes its read_time(). The first
/// 8 bytes of each tensor of a sample are the sample's number. The other bytes are written only
/// when a slot is used for the first time, so that reading does not take longer than the shape
/// says. Thread-safe.
class ShapedDataset final : public leat::feeder::Dataset {
 public:
  explicit ShapedDataset(const Shape& shape);

  [[nodiscard]] std::string_view name() const noexcept override { return shape_.name; }
  [[nodiscard]] std::span<const leat::feeder::Field> fields() const noexcept override {
    return fields_;
  }
  /// Returns more than any run reads.
  [[nodiscard]] std::uint64_t size() const noexcept override;
  void read(std::uint64_t index, leat::feeder::Sample& out) const override;

 private:
  const Shape shape_;
  std::vector<leat::feeder::Field> fields_;
};

}  // namespace overlap
