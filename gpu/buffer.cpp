#include "leat/gpu/buffer.h"

#include <functional>
#include <stdexcept>
#include <string>

namespace leat::gpu {
namespace {

void enqueue_copy(const StreamRef& stream, std::byte* to, std::size_t to_bytes,
                  const std::byte* from, std::size_t from_bytes, CopyDirection direction) {
  if (to_bytes != from_bytes) {
    throw std::invalid_argument("leat: copy_async (" + std::string(to_string(direction)) + ") on " +
                                stream.device().name() + ": " + std::to_string(from_bytes) +
                                " bytes into a span of " + std::to_string(to_bytes) +
                                "; take subspans of equal size");
  }
  if (to_bytes == 0) return;
  const std::less<> before;
  if (before(to, from + from_bytes) && before(from, to + to_bytes)) {
    throw std::invalid_argument("leat: copy_async (" + std::string(to_string(direction)) + ") on " +
                                stream.device().name() + ": source and destination overlap");
  }
  stream.device().backend()->copy_async(stream.handle(), to, from, to_bytes, direction);
}

}  // namespace

const char* to_string(CopyDirection direction) noexcept {
  switch (direction) {
    case CopyDirection::kHostToDevice: return "H2D";
    case CopyDirection::kDeviceToHost: return "D2H";
    case CopyDirection::kDeviceToDevice: return "D2D";
  }
  return "?";
}

template <Space space>
MemorySpan<space> MemorySpan<space>::subspan(std::size_t offset, std::size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) {
    throw std::out_of_range("leat: subspan of " + std::to_string(bytes) + " bytes at " +
                            std::to_string(offset) + " of a span of " + std::to_string(size_));
  }
  return {data_ + offset, bytes};
}

template <Space space>
Buffer<space>::Buffer(Device device, std::size_t bytes) : device_(std::move(device)) {
  if (bytes == 0) return;
  Backend& backend = *device_.backend();
  span_ = {
      space == Space::kDevice ? backend.allocate_device(bytes) : backend.allocate_pinned(bytes),
      bytes};
}

template <Space space>
Buffer<space>::~Buffer() {
  if (span_.data() == nullptr) return;
  Backend& backend = *device_.backend();
  if constexpr (space == Space::kDevice) {
    backend.free_device(span_.data());
  } else {
    backend.free_pinned(span_.data());
  }
}

template class MemorySpan<Space::kDevice>;
template class MemorySpan<Space::kPinned>;
template class Buffer<Space::kDevice>;
template class Buffer<Space::kPinned>;

void copy_async(const StreamRef& stream, DeviceSpan to, PinnedSpan from) {
  enqueue_copy(stream, to.data(), to.size(), from.data(), from.size(),
               CopyDirection::kHostToDevice);
}

void copy_async(const StreamRef& stream, PinnedSpan to, DeviceSpan from) {
  enqueue_copy(stream, to.data(), to.size(), from.data(), from.size(),
               CopyDirection::kDeviceToHost);
}

void copy_async(const StreamRef& stream, DeviceSpan to, DeviceSpan from) {
  enqueue_copy(stream, to.data(), to.size(), from.data(), from.size(),
               CopyDirection::kDeviceToDevice);
}

}  // namespace leat::gpu
