#include "leat/feeder/layout.h"

#include <limits>
#include <stdexcept>
#include <string>

namespace leat::feeder {
namespace {

[[noreturn]] void refuse(std::string_view dataset, const std::string& why) {
  throw std::invalid_argument("leat: dataset \"" + std::string(dataset) + "\": " + why);
}

}  // namespace

BatchLayout::BatchLayout(std::string_view dataset, std::span<const Field> fields,
                         std::span<const Field> written, std::size_t rows)
    : rows_(rows), lengths_(fields.size()) {
  if (fields.empty()) refuse(dataset, "it has no fields");
  for (const Field& field : fields) {
    if (field.variable_length && field.shape.empty()) {
      refuse(dataset, "field \"" + field.name + "\" has a variable length, but no shape");
    }
    add(dataset, field);
  }
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (!fields[f].variable_length) continue;
    lengths_[f] = tensors_.size();
    add(dataset, {.name = fields[f].name + ".length", .dtype = DType::kInt32, .shape = {}});
  }
  staged_ = tensors_.size();
  staged_bytes_ = bytes_;
  for (const Field& field : written) add(dataset, field);
}

void BatchLayout::add(std::string_view dataset, const Field& field) {
  const std::size_t sample_bytes = field.bytes();
  if (sample_bytes == 0) refuse(dataset, "field \"" + field.name + "\" has no bytes");
  const std::size_t most = (std::numeric_limits<std::size_t>::max() / 2 - bytes_) / rows_;
  if (sample_bytes > most) refuse(dataset, "a batch of field \"" + field.name + "\" is too large");
  // A transform may replace what was staged, by the same name.
  for (const TensorLayout& tensor : staged_ == 0 ? tensors() : written()) {
    if (tensor.field.name == field.name) refuse(dataset, "two fields \"" + field.name + "\"");
  }
  tensors_.push_back({.field = field, .offset = bytes_, .sample_bytes = sample_bytes});
  bytes_ += (sample_bytes * rows_ + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t BatchLayout::find(std::string_view name) const {
  for (std::size_t i = tensors_.size(); i-- > 0;) {  // those written go first
    if (tensors_[i].field.name == name) return i;
  }
  std::string known;
  for (const TensorLayout& tensor : tensors_) {
    known += (known.empty() ? "" : ", ") + tensor.field.name;
  }
  throw std::out_of_range("leat: no tensor \"" + std::string(name) + "\" in the batch; it has " +
                          known);
}

std::size_t BatchLayout::lengths_of(std::size_t field) const noexcept { return lengths_[field]; }

}  // namespace leat::feeder
