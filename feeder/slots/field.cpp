#include "leat/feeder/field.h"

#include <algorithm>

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

std::size_t first_no_bool(std::span<const std::byte> data) noexcept {
  std::byte seen{0};
  for (const std::byte one : data) seen |= one;  // without a branch: it is vectorised
  if (seen <= std::byte{1}) return data.size();
  return static_cast<std::size_t>(
      std::ranges::find_if(data, [](std::byte one) { return one > std::byte{1}; }) - data.begin());
}

}  // namespace leat::feeder
