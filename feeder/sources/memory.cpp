#include "leat/feeder/sources/memory.h"

#include <cstring>
#include <stdexcept>

#include "leat/feeder/sources/checks.h"

namespace leat::feeder {

InMemory::InMemory(std::vector<Tensor> tensors, std::string name) : name_(std::move(name)) {
  if (tensors.empty()) {
    throw std::invalid_argument("leat: InMemory needs at least one tensor");
  }
  for (Tensor& tensor : tensors) {
    Field& field = tensor.field;
    const std::string what = "leat: field \"" + field.name + "\" in memory ";
    const std::uint64_t bytes = fixed_bytes(field, "samples in memory");
    const std::size_t all = tensor.values.size();
    const std::uint64_t samples = all / bytes;
    if (all % bytes != 0) {
      throw std::invalid_argument(what + "has " + std::to_string(all) +
                                  " bytes, which are no whole number of samples of " +
                                  std::to_string(bytes));
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
  }
}

void InMemory::read(std::uint64_t index, Sample& out) const {
  check_read(*this, index, out);
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const std::span<std::byte> room = out.bytes(f);
    std::memcpy(room.data(), values_[f].data() + index * room.size(), room.size());
  }
}

}  // namespace leat::feeder
