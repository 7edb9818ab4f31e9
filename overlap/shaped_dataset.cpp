#include "leat/overlap/shaped_dataset.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/overlap/compute.h"

namespace overlap {
namespace {

using leat::feeder::DType;
using leat::feeder::Sample;

// Untouched pages are all one zero page, which stays in a CPU's cache, so copies of them are faster
// than copies of real data. So memory is filled when it is used for the first time. Its last byte
// marks filled memory.
void fill_once(std::span<std::byte> memory) {
  constexpr std::byte kFilled{0x5A};
  if (memory.back() == kFilled) return;
  std::memset(memory.data(), std::to_integer<int>(kFilled), memory.size());
}

}  // namespace

ShapedDataset::ShapedDataset(const Shape& shape) : shape_(shape) {
  shape.check();
  if (shape.sample_bytes / shape.tensors < sizeof(std::uint64_t)) {
    throw std::invalid_argument("leat-overlap: each tensor of a sample has at least 8 bytes");
  }
  const std::size_t each = shape.sample_bytes / shape.tensors;
  for (std::size_t i = 0; i < shape.tensors; ++i) {
    const std::size_t bytes = i > 0 ? each : shape.sample_bytes - each * (shape.tensors - 1);
    fields_.push_back(
        {"tensor" + std::to_string(i), DType::kUint8, {static_cast<std::int64_t>(bytes)}});
  }
}

std::uint64_t ShapedDataset::size() const noexcept {
  constexpr std::uint64_t kBatches = std::uint64_t{1} << 40;
  return kBatches * shape_.batch_size;
}

void ShapedDataset::read(std::uint64_t index, Sample& out) const {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const std::span<std::byte> memory = out.bytes(i);
    fill_once(memory.subspan(sizeof index - 1));
    std::memcpy(memory.data(), &index, sizeof index);
  }
  if (index % shape_.batch_size != 0) return;  // the first sample takes the whole batch's time
  const leat::Duration time = read_time(shape_, index / shape_.batch_size);
  if (time <= leat::Duration::zero()) return;
  if (shape_.reading == Reading::kWaiting) {
    leat::sleep_for(time);
  } else {
    compute_for(time);
  }
}

}  // namespace overlap
