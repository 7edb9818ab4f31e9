#include "leat/feeder/map.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "leat/csp/base/kept_exception.h"

namespace leat::feeder {
namespace {

// Returns memory for `count` objects that need no destructor. Valid until the read is over.
template <class T>
std::span<T> scratch_for(Sample& sample, std::size_t count) {
  static_assert(std::is_trivially_destructible_v<T>);
  auto* const first = reinterpret_cast<T*>(sample.scratch(count * sizeof(T)).data());
  std::uninitialized_value_construct_n(first, count);
  return {first, count};
}

std::string where(const Dataset& data, std::uint64_t index) {
  return "leat: transform of sample " + std::to_string(index) + " of dataset \"" +
         std::string(data.name()) + "\"";
}

// Calls `f`. Nests an exception of `f` in a TransformError.
template <class F>
void transforming(const Dataset& data, std::uint64_t index, const F& f) {
  const auto failed = [&](const char* why) {
    return TransformError(where(data, index) + " failed: " + why +
                          "; mend the transform, or leave the sample out");
  };
  try {
    f();
  } catch (const Cancelled&) {
    throw;
  } catch (const std::exception& e) {
    std::throw_with_nested(failed(e.what()));
  } catch (...) {
    static_cast<void>(kept_exception());
    std::throw_with_nested(failed("unknown exception"));
  }
}

}  // namespace

std::span<const std::byte> SampleView::bytes(std::size_t field) const {
  const std::span<const std::byte> room = sample_.bytes(field);
  const std::size_t rows = sample_.length(field);
  return room.first(std::min(room.size(), rows * fields()[field].row_bytes()));
}

Map::Map(const Dataset& from, std::vector<Field> fields, Transform f)
    : from_(from),
      name_(std::string(from.name()) + ", mapped"),
      fields_(std::move(fields)),
      transform_(std::move(f)) {
  if (!transform_) throw std::invalid_argument("leat: Map of " + name_ + " has no function");
}

Map::Map(const Dataset& from, InPlace f)
    : from_(from),
      name_(std::string(from.name()) + ", mapped"),
      fields_(from.fields().begin(), from.fields().end()),
      in_place_(std::move(f)) {
  if (!in_place_) throw std::invalid_argument("leat: Map of " + name_ + " has no function");
}

void Map::read(std::uint64_t index, Sample& out) const {
  if (transform_) {
    read_and_transform(index, out);
  } else {
    read_in_place(index, out);
  }
}

void Map::read_and_transform(std::uint64_t index, Sample& out) const {
  const std::span<const Field> fields = from_.fields();
  const std::span<std::span<std::byte>> rooms =
      scratch_for<std::span<std::byte>>(out, fields.size());
  const std::span<std::size_t> lengths = scratch_for<std::size_t>(out, fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f) rooms[f] = out.scratch(fields[f].bytes());
  Sample in(fields, rooms, lengths, out.seed(), out.epoch(), out.random(), out.scratch_);
  from_.read(index, in);
  out.random_ = in.random();  // so that no random number is used twice
  transforming(from_, index, [&] { transform_(SampleView(in), out); });
}

void Map::read_in_place(std::uint64_t index, Sample& out) const {
  out.past_cache_ = nullptr;  // the transform reads the sample back
  from_.read(index, out);
  transforming(from_, index, [&] { in_place_(out); });
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    if (!fields_[f].variable_length) continue;
    const std::optional<std::size_t> promised = from_.length(index, f);
    if (!promised || *promised == out.length(f)) continue;
    throw TransformError(where(from_, index) + " changed the length of field \"" + fields_[f].name +
                         "\" from " + std::to_string(*promised) + " to " +
                         std::to_string(out.length(f)) +
                         ", which the dataset tells beforehand; use the form of Map that names "
                         "its fields");
  }
}

std::optional<std::size_t> Map::length(std::uint64_t index, std::size_t field) const {
  return in_place_ ? from_.length(index, field) : std::nullopt;
}

}  // namespace leat::feeder
