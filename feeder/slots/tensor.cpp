#include "leat/feeder/tensor.h"

#include <stdexcept>
#include <string>

#include "leat/feeder/slots/layout.h"

namespace leat::feeder {

std::string_view Tensor::name() const noexcept { return layout_->field.name; }

DType Tensor::dtype() const noexcept { return layout_->field.dtype; }

std::size_t Tensor::bytes() const noexcept {
  std::size_t bytes = size_of(dtype());
  for (const std::int64_t extent : shape_) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

void Tensor::check_type(DType wanted) const {
  if (wanted == dtype()) return;
  throw std::invalid_argument("leat: tensor \"" + std::string(name()) + "\" is " +
                              to_string(dtype()) + ", not " + to_string(wanted));
}

Tensor TensorSet::operator[](std::size_t i) const {
  if (i >= count_) {
    throw std::out_of_range("leat: no tensor " + std::to_string(i) + " among " +
                            std::to_string(count_));
  }
  const TensorLayout& layout = layout_->tensors()[first_ + i];
  return {layout, slot_ + layout.offset, shapes_[first_ + i]};
}

Tensor TensorSet::operator[](std::string_view name) const {
  std::string known;
  for (std::size_t i = count_; i-- > 0;) {
    const std::string& one = layout_->tensors()[first_ + i].field.name;
    if (one == name) return (*this)[i];
  }
  for (std::size_t i = 0; i < count_; ++i) {
    known += (known.empty() ? "" : ", ") + layout_->tensors()[first_ + i].field.name;
  }
  throw std::out_of_range("leat: no tensor \"" + std::string(name) + "\" here; there are " + known);
}

}  // namespace leat::feeder
