// Data of a shape: no file, but the sizes and times of one.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/overlap/shape.h"

namespace overlap {

/// Batches of a shape's size, in sequential order. Reading one takes its read_time(). The first
/// 8 bytes of each tensor of a sample are the sample's number. The rest is filled once, when a slot
/// is read into for the first time, and then left alone: reading takes the time that the shape
/// says, and no more. Thread-safe.
class ShapedDataset final : public leat::feeder::Dataset {
 public:
  explicit ShapedDataset(const Shape& shape);

  [[nodiscard]] std::string_view name() const noexcept override { return shape_.name; }
  [[nodiscard]] std::span<const leat::feeder::Field> fields() const noexcept override {
    return fields_;
  }
  /// More than any run will read.
  [[nodiscard]] std::uint64_t size() const noexcept override;
  void read(std::uint64_t index, leat::feeder::Sample& out) const override;

 private:
  const Shape shape_;
  std::vector<leat::feeder::Field> fields_;
};

}  // namespace overlap
