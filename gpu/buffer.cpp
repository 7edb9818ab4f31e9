#include "leat/gpu/buffer.h"

#include <array>
#include <functional>
#include <stdexcept>
#include <string>

#include "leat/gpu/backend/backend.h"
#include "leat/gpu/stream.h"

namespace leat::gpu {
namespace {

// Throws the error of a copy that is refused.
[[noreturn]] void refuse(const StreamRef& stream, CopyDirection direction, const std::string& why) {
  throw std::invalid_argument("leat: copy_async (" + std::string(to_string(direction)) + ") on " +
                              stream.device().name() + ": " + why);
}

CopyRange checked(const StreamRef& stream, std::byte* to, std::size_t to_bytes,
                  const std::byte* from, std::size_t from_bytes, CopyDirection direction) {
  if (to_bytes != from_bytes) {
    refuse(stream, direction,
           std::to_string(from_bytes) + " bytes into a span of " + std::to_string(to_bytes) +
               "; take subspans of equal size");
  }
  const std::less<> before;
  if (to_bytes > 0 && before(to, from + from_bytes) && before(from, to + to_bytes)) {
    refuse(stream, direction, "source and destination overlap");
  }
  return {to, from, to_bytes};
}

template <MemorySpace to_space, MemorySpace from_space>
constexpr CopyDirection direction_of() {
  if constexpr (to_space == MemorySpace::kPinned) return CopyDirection::kDeviceToHost;
  return from_space == MemorySpace::kPinned ? CopyDirection::kHostToDevice
                                            : CopyDirection::kDeviceToDevice;
}

template <MemorySpace to_space, MemorySpace from_space>
void enqueue_copy(const StreamRef& stream, MemorySpan<to_space> to, MemorySpan<from_space> from) {
  constexpr CopyDirection kDirection = direction_of<to_space, from_space>();
  const CopyRange copy =
      checked(stream, to.data(), to.size(), from.data(), from.size(), kDirection);
  stream.device().backend()->copy_async(stream.handle(), copy.to, copy.from, copy.bytes,
                                        kDirection);
}

template <MemorySpace to_space, MemorySpace from_space>
void enqueue_copies(const StreamRef& stream, std::span<const Copy<to_space, from_space>> copies) {
  constexpr CopyDirection kDirection = direction_of<to_space, from_space>();
  for (const auto& [to, from] : copies) {  // all are checked before any is enqueued
    static_cast<void>(checked(stream, to.data(), to.size(), from.data(), from.size(), kDirection));
  }
  std::array<CopyRange, 64> ranges;  // on the stack: nothing is allocated
  std::size_t count = 0;
  const auto flush = [&] {
    stream.device().backend()->copy_batch_async(stream.handle(), {ranges.data(), count},
                                                kDirection);
    count = 0;
  };
  for (const auto& [to, from] : copies) {
    if (to.size() == 0) continue;
    ranges[count++] = {to.data(), from.data(), to.size()};
    if (count == ranges.size()) flush();
  }
  // Even if there is nothing to copy: the backend checks the stream, which may be moved from or
  // unable to copy.
  flush();
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

template <MemorySpace space>
MemorySpan<space> MemorySpan<space>::subspan(std::size_t offset, std::size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) {
    throw std::out_of_range("leat: subspan of " + std::to_string(bytes) + " bytes at " +
                            std::to_string(offset) + " of a span of " + std::to_string(size_));
  }
  return {data_ + offset, bytes};
}

// `allocate` returns the memory, or throws and allocates none.
template <MemorySpace space>
template <class Allocate>
void Buffer<space>::make(std::size_t bytes, const Allocate& allocate) {
  if (bytes == 0) return;
  Backend& backend = *device_.backend();
  reserve_memory(backend, space, bytes);
  try {
    span_ = {allocate(backend), bytes};
  } catch (...) {
    backend.account(space).rollback(bytes);
    throw;
  }
  backend.account(space).commit(bytes);
}

template <MemorySpace space>
Buffer<space>::Buffer(const Device& device, std::size_t bytes) : device_(device) {
  make(bytes, [&](Backend& backend) {
    return space == MemorySpace::kDevice ? backend.allocate_device(bytes)
                                         : backend.allocate_pinned(bytes, PinnedUse::kReadWrite);
  });
}

template <MemorySpace space>
Buffer<space>::Buffer(const StreamRef& stream,
                      std::size_t bytes) requires(space == MemorySpace::kDevice)
    : device_(stream.device()), stream_(stream.handle()) {
  make(bytes, [&](Backend& backend) { return backend.allocate_device(bytes, stream_); });
}

template <MemorySpace space>
Buffer<space>::Buffer(const Device& device, std::size_t bytes,
                      PinnedUse use) requires(space == MemorySpace::kPinned)
    : device_(device) {
  make(bytes, [&](Backend& backend) { return backend.allocate_pinned(bytes, use); });
}

template <MemorySpace space>
Buffer<space>::~Buffer() {
  if (span_.data() == nullptr) return;
  Backend& backend = *device_.backend();
  bool gone = false;
  if constexpr (space == MemorySpace::kPinned) {
    gone = backend.free_pinned(span_.data());
  } else if (stream_ != StreamHandle::kNone) {
    gone = backend.free_device(span_.data(), stream_);
  } else {
    gone = backend.free_device(span_.data());
  }
  if (gone) backend.account(space).release(span_.size());
}

template class MemorySpan<MemorySpace::kDevice>;
template class MemorySpan<MemorySpace::kPinned>;
template class Buffer<MemorySpace::kDevice>;
template class Buffer<MemorySpace::kPinned>;

void copy_async(const StreamRef& stream, DeviceSpan to, PinnedSpan from) {
  enqueue_copy(stream, to, from);
}
void copy_async(const StreamRef& stream, PinnedSpan to, DeviceSpan from) {
  enqueue_copy(stream, to, from);
}
void copy_async(const StreamRef& stream, DeviceSpan to, DeviceSpan from) {
  enqueue_copy(stream, to, from);
}
void copy_async(const StreamRef& stream, std::span<const CopyToDevice> copies) {
  enqueue_copies(stream, copies);
}
void copy_async(const StreamRef& stream, std::span<const CopyToHost> copies) {
  enqueue_copies(stream, copies);
}
void copy_async(const StreamRef& stream, std::span<const CopyWithinDevice> copies) {
  enqueue_copies(stream, copies);
}

}  // namespace leat::gpu
