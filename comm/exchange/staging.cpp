#include "leat/comm/exchange/staging.h"

#include <cstring>

namespace leat::comm {
namespace {

constexpr std::size_t kAlignment = 64;

// x + -0.0 is x, for every x; x + 0.0 is not, for -0.0.
void fill_with_nothing(std::byte* to, const Part& part) {
  std::memset(to, 0, part.bytes);
  const std::size_t size = gpu::size_of(part.dtype);
  if (part.dtype == DType::kInt32 || part.dtype == DType::kInt64) return;
  for (std::size_t i = size - 1; i < part.bytes; i += size) to[i] = std::byte{0x80};  // the sign
}

}  // namespace

Staging::Staging(const std::optional<gpu::Device>& device, std::size_t slots, std::size_t bytes,
                 bool in_device_memory) {
  const std::size_t stride = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (device.has_value()) {
    in_.emplace(*device);
    out_.emplace(*device);
  }
  if (in_device_memory) {
    memory_.emplace(*device, slots * stride);
    zeros_.emplace(*device, bytes);
    std::memset(zeros_->data(), 0, bytes);
  } else if (device.has_value()) {
    arena_.emplace(*device, slots * stride);
  } else {
    host_.resize(slots * stride);
  }
  std::byte* const first = memory_ ? memory_->data() : host_.data();
  for (std::size_t i = 0; i < slots; ++i) {
    free_.push_back(arena_ ? arena_->take(stride, kAlignment).data() : first + i * stride);
  }
}

std::byte* Staging::take() noexcept {
  if (free_.empty()) return nullptr;
  std::byte* const slot = free_.back();
  free_.pop_back();
  return slot;
}

const gpu::Stream* Staging::copy(Way way, std::byte* slot, std::span<const Part> parts) {
  const std::optional<gpu::Stream>& stream = way == Way::kIn ? in_ : out_;
  for (const Part& part : parts) {
    if (part.bytes == 0) continue;  // its pointer may be null
    const gpu::PinnedSpan staged(slot, part.bytes);
    const gpu::DeviceSpan gradient(part.data, part.bytes);
    const gpu::DeviceSpan slot_on_device(slot, part.bytes);
    if (memory_) {
      if (way == Way::kOut) {
        if (!part.is_absent) copy_async(*stream, gradient, slot_on_device);
      } else if (part.is_absent) {
        copy_async(*stream, slot_on_device, zeros_->subspan(0, part.bytes));
      } else {
        copy_async(*stream, slot_on_device, gradient);
      }
    } else if (part.is_absent) {
      if (way == Way::kIn) fill_with_nothing(slot, part);
    } else if (!stream) {
      std::memcpy(way == Way::kIn ? slot : part.data, way == Way::kIn ? part.data : slot,
                  part.bytes);
    } else if (way == Way::kIn) {
      copy_async(*stream, staged, gradient);
    } else {
      copy_async(*stream, gradient, staged);
    }
    slot += part.bytes;
  }
  return stream ? &*stream : nullptr;
}

}  // namespace leat::comm
