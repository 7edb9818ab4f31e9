// Where the tensors of a batch lie in a slot.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "leat/feeder/dataset.h"

namespace leat::feeder {

/// One tensor of a batch: the samples' fields one after the other, [samples, shape...], row-major.
struct TensorLayout {
  Field field;                   // of one sample
  std::size_t offset = 0;        // of the tensor in the slot
  std::size_t sample_bytes = 0;  // of one sample in it
};

/// The tensors of a batch of up to `batch_size` samples, each at a fixed offset that is aligned for
/// any kernel.
class BatchLayout {
 public:
  /// Throws std::invalid_argument for a dataset without fields, a field without bytes, a name used
  /// twice, or a size that overflows.
  BatchLayout(const Dataset& dataset, std::size_t batch_size);

  [[nodiscard]] std::size_t batch_size() const noexcept { return batch_size_; }
  /// Of a whole slot.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::vector<TensorLayout>& tensors() const noexcept { return tensors_; }
  /// The tensor's number. Throws std::out_of_range, naming the tensors there are.
  [[nodiscard]] std::size_t find(std::string_view name) const;

 private:
  std::size_t batch_size_;
  std::size_t bytes_ = 0;
  std::vector<TensorLayout> tensors_;
};

}  // namespace leat::feeder
