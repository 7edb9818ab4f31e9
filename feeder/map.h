// Transforms on the host: a dataset whose samples are computed from the samples of another one.
//
// Example: bytes become floats, and half of the images are mirrored
//   const leat::feeder::Map augmented(
//       data, {{"image", leat::feeder::DType::kFloat32, {3, 32, 32}},
//              {"label", leat::feeder::DType::kUint8, {}}},
//       [](const leat::feeder::SampleView& in, leat::feeder::Sample& out) {
//         to_floats(in.as<std::uint8_t>(0), out.as<float>(0));
//         if (out.random().below(2) == 1) mirror(out.as<float>(0));
//         out.as<std::uint8_t>(1)[0] = in.as<std::uint8_t>(1)[0];
//       });
//
// Transforms run where samples are read: on the readers of the prefetcher, several at a time. The
// numbers of out.random() depend on the sample and the epoch alone, so a resumed run augments each
// sample as the first run did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/csp/error.h"
#include "leat/feeder/dataset.h"

namespace leat::feeder {

/// Thrown by Map::read() when a transform has thrown. The transform's exception is nested
/// (std::rethrow_if_nested), and what() contains its text.
class TransformError : public Error {
 public:
  using Error::Error;
};

/// A sample that was read, read-only. Valid during the call that receives it.
class SampleView {
 public:
  /// A view of `sample`, which must outlive it.
  explicit SampleView(const Sample& sample) noexcept : sample_(sample) {}
  /// Returns the tensors of the sample.
  [[nodiscard]] std::span<const Field> fields() const noexcept { return sample_.fields(); }
  /// Returns the bytes of field `field`; for variable length, as many as this sample has. Throws
  /// std::out_of_range.
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t field) const;
  /// bytes(field) as elements. Throws std::invalid_argument if T is not the type of the field.
  template <class T>
  [[nodiscard]] std::span<const T> as(std::size_t field) const {
    const std::span<const T> room = sample_.as<T>(field);
    return room.first(bytes(field).size() / sizeof(T));
  }
  /// Returns the first extent of field `field`; 1 for a scalar.
  [[nodiscard]] std::size_t length(std::size_t field) const { return sample_.length(field); }

 private:
  const Sample& sample_;
};

/// A dataset of the transformed samples of another dataset. A Map may be mapped again; out.random()
/// then continues where the inner transform stopped. Const functions are thread-safe if the
/// transform is.
class Map final : public Dataset {
 public:
  /// Computes `out` from `in`.
  using Transform = std::function<void(const SampleView& in, Sample& out)>;
  /// Changes `sample`.
  using InPlace = std::function<void(Sample& sample)>;

  /// `f` computes a sample with these fields from a sample of `from`, which is in scratch memory.
  /// `from` must outlive the map. Throws std::invalid_argument if `f` is empty.
  Map(const Dataset& from, std::vector<Field> fields, Transform f);
  /// `f` changes the sample in place: no copy is made, and the fields stay as they are. `f` may set
  /// a variable length, unless `from` has promised one by length(). `from` must outlive the map.
  /// Throws std::invalid_argument if `f` is empty.
  Map(const Dataset& from, InPlace f);

  /// Returns the name of `from`, and "mapped".
  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return from_.size(); }
  /// Reads from `from` and transforms. Rethrows unchanged what from.read() throws, and Cancelled.
  /// Throws TransformError if `f` throws (nested), or changes a promised length.
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] Blocking blocking() const noexcept override { return from_.blocking(); }
  /// Returns the digest of `from`.
  [[nodiscard]] std::uint64_t digest() const noexcept override { return from_.digest(); }
  [[nodiscard]] bool is_ordered() const noexcept override { return from_.is_ordered(); }
  [[nodiscard]] bool varies_by_epoch() const noexcept override { return from_.varies_by_epoch(); }
  /// Returns the origin in `from`.
  [[nodiscard]] std::string origin(std::uint64_t index, std::uint64_t seed,
                                   std::uint64_t epoch) const override {
    return from_.origin(index, seed, epoch);
  }
  void will_read(std::uint64_t index, std::uint64_t seed,
                 std::uint64_t epoch) const noexcept override {
    from_.will_read(index, seed, epoch);
  }
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override {
    return from_.announce(index, seed, epoch);
  }
  /// In place: returns the length of `from`. Else std::nullopt, because only `f` knows the length.
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index,
                                                  std::size_t field) const override;

 private:
  void read_and_transform(std::uint64_t index, Sample& out) const;
  void read_in_place(std::uint64_t index, Sample& out) const;

  const Dataset& from_;
  std::string name_;
  std::vector<Field> fields_;
  Transform transform_;  // one of the two
  InPlace in_place_;
};

}  // namespace leat::feeder
