#include "leat/feeder/field.h"

namespace leat::feeder {

std::size_t Field::elements() const noexcept {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

std::size_t Field::row_bytes() const noexcept {
  std::size_t count = size_of(dtype);
  for (std::size_t i = 1; i < shape.size(); ++i) count *= static_cast<std::size_t>(shape[i]);
  return count;
}

}  // namespace leat::feeder
