#include "leat/feeder/layout.h"

#include <limits>
#include <stdexcept>
#include <string>

namespace leat::feeder {
namespace {

constexpr std::size_t kAlignment = 256;  // of cudaMalloc, and a GPU's largest vector load

[[noreturn]] void refuse(const Dataset& dataset, const std::string& why) {
  throw std::invalid_argument("leat: dataset \"" + std::string(dataset.name()) + "\": " + why);
}

}  // namespace

BatchLayout::BatchLayout(const Dataset& dataset, std::size_t batch_size) : batch_size_(batch_size) {
  if (batch_size == 0) {
    throw std::invalid_argument("leat: batch_size is 0; a batch has at least one sample");
  }
  if (dataset.fields().empty()) refuse(dataset, "it has no fields");
  for (const Field& field : dataset.fields()) {
    const std::size_t sample_bytes = field.bytes();
    if (sample_bytes == 0) refuse(dataset, "field \"" + field.name + "\" has no bytes");
    const std::size_t most = (std::numeric_limits<std::size_t>::max() / 2 - bytes_) / batch_size;
    if (sample_bytes > most)
      refuse(dataset, "a batch of field \"" + field.name + "\" is too large");
    for (const TensorLayout& tensor : tensors_) {
      if (tensor.field.name == field.name) refuse(dataset, "two fields \"" + field.name + "\"");
    }
    tensors_.push_back({.field = field, .offset = bytes_, .sample_bytes = sample_bytes});
    bytes_ += (sample_bytes * batch_size + kAlignment - 1) / kAlignment * kAlignment;
  }
}

std::size_t BatchLayout::find(std::string_view name) const {
  std::string known;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].field.name == name) return i;
    known += (known.empty() ? "" : ", ") + tensors_[i].field.name;
  }
  throw std::out_of_range("leat: no tensor \"" + std::string(name) + "\" in the batch; it has " +
                          known);
}

}  // namespace leat::feeder
