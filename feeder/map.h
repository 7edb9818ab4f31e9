// Transforms on the host: what becomes of a sample before it is in a batch.
//
// Example: floats out of bytes, and a mirror image half of the time
//   const leat::feeder::Map augmented(
//       data, {{"image", leat::feeder::DType::kFloat32, {3, 32, 32}},
//              {"label", leat::feeder::DType::kUint8, {}}},
//       [](const leat::feeder::SampleView& in, leat::feeder::Sample& out) {
//         to_floats(in.as<std::uint8_t>(0), out.as<float>(0));
//         if (out.random().below(2) == 1) mirror(out.as<float>(0));
//         out.as<std::uint8_t>(1)[0] = in.as<std::uint8_t>(1)[0];
//       });
//
// Transforms run where samples are read: several at a time, on the prefetcher's readers. What they
// draw from out.random() depends on the sample and the epoch alone, so a resumed run augments as
// the first one did.
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

/// A transform threw. What it threw is nested (std::rethrow_if_nested), and its text is in this
/// one's.
class TransformError : public Error {
 public:
  using Error::Error;
};

/// A sample that was read, to be looked at. Valid during the call that it was passed to.
class SampleView {
 public:
  explicit SampleView(const Sample& sample) noexcept : sample_(sample) {}
  [[nodiscard]] std::span<const Field> fields() const noexcept { return sample_.fields(); }
  /// Of a field of variable length, as much as the sample has. Throws std::out_of_range.
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t field) const;
  /// The same as elements. Throws std::invalid_argument if T is not the field's type.
  template <class T>
  [[nodiscard]] std::span<const T> as(std::size_t field) const {
    const std::span<const T> room = sample_.as<T>(field);
    return room.first(bytes(field).size() / sizeof(T));
  }
  /// In its first extent; 1 for a scalar.
  [[nodiscard]] std::size_t length(std::size_t field) const { return sample_.length(field); }

 private:
  const Sample& sample_;
};

/// A dataset of another one's samples, each transformed. Maps may be mapped again: out.random()
/// then goes on where the inner transform left it. Const and thread-safe as far as the transform
/// is.
class Map final : public Dataset {
 public:
  using Transform = std::function<void(const SampleView& in, Sample& out)>;
  using InPlace = std::function<void(Sample& sample)>;

  /// `f` makes of a sample of `from`, which is in scratch memory, one with these fields. `from`
  /// must outlive this. Throws std::invalid_argument if `f` is empty.
  Map(const Dataset& from, std::vector<Field> fields, Transform f);
  /// `f` changes the sample where it lies, which is where it goes: there is no copy, and the fields
  /// stay as they are. It may set a variable length, unless `from` promises one by length().
  Map(const Dataset& from, InPlace f);

  /// That of `from`, and "mapped".
  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return from_.size(); }
  /// Throws what reading from `from` throws, as it is, and TransformError with what `f` threw
  /// nested in it, or where `f` changed a length that was promised. Cancelled passes.
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] Blocking blocking() const noexcept override { return from_.blocking(); }
  void will_read(std::uint64_t index) const noexcept override { from_.will_read(index); }
  /// In place, what `from` says; else std::nullopt, since only `f` knows.
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
