#include "leat/feeder/sources/memory.h"

#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/sources/announce.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/guarded_range.h"
#include "leat/feeder/sources/offsets.h"

namespace leat::feeder {
namespace {

// Bytes from the first one of the page to `first`.
std::size_t before_in_page(const std::byte* first) noexcept {
  return reinterpret_cast<std::uintptr_t>(first) % static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Guards the pages that `values` lie in.
std::unique_ptr<const GuardedRange> guard(std::span<const std::byte> values) {
  if (values.empty()) return nullptr;
  const std::size_t before = before_in_page(values.data());
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t pages = (before + values.size() + page - 1) / page;
  return std::make_unique<const GuardedRange>(values.data() - before, pages * page);
}

// Returns the shape of a ragged field, which is that of a row, with the longest sample in front.
// Throws if the offsets are not ascending or lead beyond the rows.
std::vector<std::int64_t> ragged_shape(const std::string& what,
                                       std::span<const std::int64_t> offsets, std::uint64_t rows,
                                       std::vector<std::int64_t> shape) {
  const Offsets view{std::as_bytes(offsets).data(), true};
  const Offsets::Found found = view.look(0, offsets.size() - 1, rows);
  if (found.bad) {
    throw std::invalid_argument(what + "has wrong offsets: sample " + std::to_string(*found.bad) +
                                " is rows " + std::to_string(offsets[*found.bad]) + " to " +
                                std::to_string(offsets[*found.bad + 1]) + " of " +
                                std::to_string(rows));
  }
  if (shape.empty()) shape.push_back(1);
  shape[0] = static_cast<std::int64_t>(std::max<std::uint64_t>(found.longest, 1));
  return shape;
}

}  // namespace

InMemory::InMemory(std::vector<Tensor> tensors, std::string name) : name_(std::move(name)) {
  if (tensors.empty()) {
    throw std::invalid_argument("leat: InMemory needs at least one tensor");
  }
  for (Tensor& tensor : tensors) {
    Field& field = tensor.field;
    const std::string what = "leat: field \"" + field.name + "\" in memory ";
    const bool is_ragged = field.variable_length && !tensor.offsets.empty();
    if (is_ragged && !field.shape.empty()) field.shape[0] = 1;
    field.variable_length = field.variable_length && !is_ragged;  // of one row, it is fixed
    const std::uint64_t bytes = fixed_bytes(field, "samples in memory");
    const std::size_t all = tensor.values.size();
    if (all % bytes != 0) {
      throw std::invalid_argument(
          what + "has " + std::to_string(all) + " bytes, which are no whole number of " +
          (is_ragged ? "rows" : "samples") + " of " + std::to_string(bytes));
    }
    std::uint64_t samples = all / bytes;
    if (is_ragged) {
      const std::uint64_t rows = samples;
      samples = tensor.offsets.size() - 1;
      field.shape = ragged_shape(what, tensor.offsets, rows, std::move(field.shape));
      field.variable_length = true;
    }
    if (fields_.empty()) {
      size_ = samples;
    } else if (samples != size_) {
      throw std::invalid_argument(what + "has " + std::to_string(samples) +
                                  " samples, but field \"" + fields_[0].name + "\" has " +
                                  std::to_string(size_));
    }
    fields_.push_back(std::move(field));
    values_.push_back(tensor.values);
    offsets_.push_back(is_ragged ? tensor.offsets : std::span<const std::int64_t>());
    guards_.push_back(tensor.is_mapped ? guard(tensor.values) : nullptr);
    if (tensor.is_mapped) blocking_ = Blocking::kSeldom;
  }
}

InMemory::~InMemory() = default;

std::span<const std::byte> InMemory::bytes_of(std::size_t field,
                                              std::uint64_t index) const noexcept {
  if (offsets_[field].empty()) {
    const std::size_t bytes = fields_[field].bytes();
    return values_[field].subspan(index * bytes, bytes);
  }
  const std::size_t row = fields_[field].row_bytes();
  const auto begin = static_cast<std::size_t>(offsets_[field][index]);
  const auto end = static_cast<std::size_t>(offsets_[field][index + 1]);
  return values_[field].subspan(begin * row, (end - begin) * row);
}

std::optional<std::size_t> InMemory::length(std::uint64_t index, std::size_t field) const {
  if (field >= fields_.size() || !fields_[field].variable_length) return std::nullopt;
  check_index(*this, index);
  return bytes_of(field, index).size() / fields_[field].row_bytes();
}

void InMemory::read(std::uint64_t index, Sample& out) const {
  check_read(*this, index, out);
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const std::span<const std::byte> bytes = bytes_of(f, index);
    if (fields_[f].variable_length) out.set_length(f, bytes.size() / fields_[f].row_bytes());
    out.copy(f, bytes);
    if (guards_[f] == nullptr) continue;
    const std::size_t from = before_in_page(values_[f].data()) +
                             static_cast<std::size_t>(bytes.data() - values_[f].data());
    if (!guards_[f]->is_lost(from, from + bytes.size())) continue;
    throw Error("leat: cannot read sample " + std::to_string(index) + " of field \"" +
                fields_[f].name + "\" of " + name_ +
                ": the file that the array is mapped from lacks it, because the file was cut off "
                "or because of an I/O error; do not change files that are in use");
  }
}

std::uint64_t InMemory::announce(std::uint64_t index, std::uint64_t /*seed*/,
                                 std::uint64_t /*epoch*/) const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const std::span<const std::byte> bytes = bytes_of(f, index);
    if (guards_[f] != nullptr && announce_mapped(bytes)) sum += bytes.size();
  }
  return sum;
}

}  // namespace leat::feeder
