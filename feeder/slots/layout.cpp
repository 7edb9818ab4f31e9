#include "leat/feeder/slots/layout.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace leat::feeder {
namespace {

[[noreturn]] void refuse_fields(const std::string& owner, const std::string& why) {
  throw std::invalid_argument("leat: " + owner + ": " + why);
}

constexpr std::size_t kMostBatchBytes = std::size_t{1} << 56;

}  // namespace

std::size_t row_bytes_of(const TensorLayout& tensor,
                         std::span<const std::size_t> longest) noexcept {
  if (!tensor.length_of.has_value()) return tensor.sample_bytes;
  return longest[*tensor.length_of] * tensor.field.row_bytes();
}

BatchLayout::BatchLayout(std::string_view dataset, std::span<const Field> fields,
                         std::span<const Field> written, std::size_t rows, std::size_t elements,
                         bool to_longest)
    : rows_(rows), elements_(elements), lengths_(fields.size()) {
  const std::string owner = "dataset \"" + std::string(dataset) + "\"";
  if (fields.empty()) refuse_fields(owner, "it has no fields");
  const bool is_packed = elements > 0;
  const auto per = [&](const Field& field) {
    return is_packed && field.variable_length ? RowPer::kElement : RowPer::kSample;
  };
  for (const Field& field : fields) {
    if (field.variable_length && field.shape.empty()) {
      refuse_fields(owner, "field \"" + field.name + "\" has a variable length, but no shape");
    }
    add(owner, field, per(field));
    if (to_longest && field.variable_length) tensors_.back().length_of = tensors_.size() - 1;
  }
  const std::size_t offsets = tensors_.size();
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (!fields[f].variable_length) continue;
    lengths_[f] = is_packed ? offsets : tensors_.size();
    if (is_packed && tensors_.size() > offsets) continue;  // packed fields share it
    add(owner,
        {.name = is_packed ? "offsets" : fields[f].name + ".length",
         .dtype = DType::kInt32,
         .shape = {}},
        is_packed ? RowPer::kOffset : RowPer::kSample);
  }
  staged_ = tensors_.size();
  staged_bytes_ = bytes_;
  for (const Field& field : written) {
    add("device_transform", field, per(field));
    if (to_longest && field.variable_length) follow_length(fields, tensors_.back());
  }
}

BatchLayout::BatchLayout(std::span<const PlacedTensor> tensors) {
  const auto refuse = [](const PlacedTensor& tensor, const std::string& why) {
    throw Error("leat: tensor \"" + tensor.name + "\" of a batch: " + why);
  };
  for (const PlacedTensor& tensor : tensors) {
    std::size_t bytes = size_of(tensor.dtype);
    for (const std::int64_t extent : tensor.shape) {
      if (extent < 0) refuse(tensor, "it has an extent of " + std::to_string(extent));
      if (extent > 0 && bytes > kMostBatchBytes / static_cast<std::size_t>(extent)) {
        refuse(tensor, "it is larger than any memory");
      }
      bytes *= static_cast<std::size_t>(extent);
    }
    if (tensor.offset % kAlignment != 0 || tensor.offset > kMostBatchBytes) {
      refuse(tensor, "it lies at byte " + std::to_string(tensor.offset) + " of the slot");
    }
    for (const TensorLayout& other : tensors_) {
      if (other.field.name == tensor.name) refuse(tensor, "another has the same name");
      if (tensor.offset < other.offset + other.sample_bytes &&
          other.offset < tensor.offset + bytes) {
        refuse(tensor, "it lies where \"" + other.field.name + "\" is");
      }
    }
    tensors_.push_back(
        {.field = {.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape},
         .per = RowPer::kBatch,
         .rows = 1,
         .offset = tensor.offset,
         .sample_bytes = bytes,
         .length_of = std::nullopt});
    bytes_ = std::max(bytes_, tensor.offset + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  staged_ = tensors_.size();
  staged_bytes_ = bytes_;
}

std::shared_ptr<const BatchLayout> layout_of(std::span<const PlacedTensor> tensors) {
  return std::make_shared<const BatchLayout>(tensors);
}

void BatchLayout::follow_length(std::span<const Field> fields, TensorLayout& written) const {
  auto leader = std::ranges::find_if(fields, [&](const Field& field) {
    return field.variable_length && field.name == written.field.name;
  });
  if (leader == fields.end()) leader = std::ranges::find_if(fields, &Field::variable_length);
  if (leader == fields.end()) return;
  if (written.field.shape.empty() || written.field.shape[0] < leader->shape[0]) {
    refuse_fields("device_transform",
                  "field \"" + written.field.name + "\" has no room for the length of field \"" +
                      leader->name + "\", which is up to " + std::to_string(leader->shape[0]));
  }
  written.length_of = static_cast<std::size_t>(leader - fields.begin());
}

void BatchLayout::add(const std::string& owner, const Field& given, RowPer per) {
  std::size_t bytes = size_of(given.dtype);
  for (const std::int64_t extent : given.shape) {
    if (extent < 0) {
      refuse_fields(owner,
                    "field \"" + given.name + "\" has an extent of " + std::to_string(extent));
    }
    if (extent > 0 && bytes > kMostBatchBytes / static_cast<std::size_t>(extent)) {
      refuse_fields(owner, "field \"" + given.name + "\" is larger than any memory");
    }
    bytes *= static_cast<std::size_t>(extent);
  }
  Field field = given;
  if (per == RowPer::kElement) field.shape.erase(field.shape.begin());
  const std::size_t rows = per == RowPer::kElement  ? elements_
                           : per == RowPer::kOffset ? rows_ + 1
                                                    : rows_;
  const std::size_t sample_bytes = field.bytes();
  if (sample_bytes == 0 || given.bytes() == 0) {
    refuse_fields(owner, "field \"" + field.name + "\" has no bytes");
  }
  const std::size_t most = (std::numeric_limits<std::size_t>::max() / 2 - bytes_) / rows;
  if (sample_bytes > most)
    refuse_fields(owner, "a batch of field \"" + field.name + "\" is too large");
  // A written field may have the name of a staged one, and then hides it.
  for (const TensorLayout& tensor : staged_ == 0 ? tensors() : written()) {
    if (tensor.field.name == field.name) refuse_fields(owner, "two fields \"" + field.name + "\"");
  }
  tensors_.push_back({.field = field,
                      .per = per,
                      .rows = rows,
                      .offset = bytes_,
                      .sample_bytes = sample_bytes,
                      .length_of = std::nullopt});
  bytes_ += (sample_bytes * rows + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t BatchLayout::find(std::string_view name) const {
  for (std::size_t i = tensors_.size(); i-- > 0;) {  // a written field hides a staged one
    if (tensors_[i].field.name == name) return i;
  }
  std::string known;
  for (const TensorLayout& tensor : tensors_) {
    known += (known.empty() ? "" : ", ") + tensor.field.name;
  }
  throw std::out_of_range("leat: no tensor \"" + std::string(name) + "\" in the batch; it has " +
                          known);
}

std::string BatchLayout::place_of(std::size_t byte, std::span<const std::size_t> longest) const {
  std::string place = "its byte " + std::to_string(byte);
  for (const TensorLayout& tensor : tensors_) {
    if (byte < tensor.offset || byte >= tensor.offset + tensor.sample_bytes * tensor.rows) continue;
    const std::size_t row = std::max<std::size_t>(
        longest.empty() ? tensor.sample_bytes : row_bytes_of(tensor, longest), 1);
    place += ", in row " + std::to_string((byte - tensor.offset) / row) + " of tensor \"" +
             tensor.field.name + "\"";
  }
  return place;
}

std::size_t BatchLayout::lengths_of(std::size_t field) const noexcept { return lengths_[field]; }

}  // namespace leat::feeder
