// Datasets: where samples come from.
//
// Example: a dataset of one's own
//   class Squares final : public leat::feeder::Dataset {
//    public:
//     std::string_view name() const noexcept override { return "squares"; }
//     std::span<const Field> fields() const noexcept override { return fields_; }
//     std::uint64_t size() const noexcept override { return 1000; }
//     void read(std::uint64_t index, std::span<const std::span<std::byte>> out) const override {
//       const std::int64_t square = static_cast<std::int64_t>(index * index);
//       std::memcpy(out[0].data(), &square, sizeof square);
//     }
//    private:
//     std::vector<Field> fields_{{"square", DType::kInt64, {}}};
//   };
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace leat::feeder {

/// The type of a tensor's elements.
enum class DType : std::uint8_t { kUint8, kUint16, kInt32, kInt64, kFloat32, kFloat64 };

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype) noexcept;
/// "uint8", "float32", ...
[[nodiscard]] const char* to_string(DType dtype) noexcept;

/// The DType of a C++ type; not defined for types that are no tensor element.
template <class T>
inline constexpr DType kDTypeOf = T::not_an_element_type;
template <>
inline constexpr DType kDTypeOf<std::uint8_t> = DType::kUint8;
template <>
inline constexpr DType kDTypeOf<std::uint16_t> = DType::kUint16;
template <>
inline constexpr DType kDTypeOf<std::int32_t> = DType::kInt32;
template <>
inline constexpr DType kDTypeOf<std::int64_t> = DType::kInt64;
template <>
inline constexpr DType kDTypeOf<float> = DType::kFloat32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kFloat64;

/// One tensor of a sample: all samples have it with the same type and shape.
struct Field {
  std::string name;  // "image"
  DType dtype = DType::kUint8;
  std::vector<std::int64_t> shape;  // of one sample, row-major; empty: a scalar

  /// Elements of one sample.
  [[nodiscard]] std::size_t elements() const noexcept;
  /// Bytes of one sample.
  [[nodiscard]] std::size_t bytes() const noexcept { return elements() * size_of(dtype); }
};

/// Samples by number.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  /// For error messages and reports.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// The tensors of a sample; constant over the dataset's life.
  [[nodiscard]] virtual std::span<const Field> fields() const noexcept = 0;
  /// Number of samples; constant.
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// Writes sample `index` < size(): field f into out[f], which has fields()[f].bytes() bytes (in
  /// pinned memory: decode straight into it). Called from several fibers at the same time. Throws
  /// leat::Error, saying file and offset; may park.
  virtual void read(std::uint64_t index, std::span<const std::span<std::byte>> out) const = 0;
};

}  // namespace leat::feeder
