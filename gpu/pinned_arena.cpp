#include "leat/gpu/pinned_arena.h"

#include <bit>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "leat/gpu/backend/backend.h"
#include "leat/gpu/backend/page_placement.h"
#include "leat/gpu/error.h"

namespace leat::gpu {

PinnedArena::PinnedArena(const Device& device, std::size_t bytes, PageSharing sharing)
    : device_(device) {
  if (bytes == 0) throw std::invalid_argument("leat: PinnedArena: 0 bytes; at least 1");
  Backend& backend = *device_.backend();
  const auto map = [&](std::optional<PageMapping>& pages) {
    try {
      pages.emplace(bytes, backend.info().numa_node, sharing);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(bytes,
                        "allocate an arena of " + std::to_string(bytes) +
                            " bytes of pinned memory on " + backend.info().name,
                        "out of memory; use smaller batches or fewer slots");
    }
  };
  if (sharing == PageSharing::kSharedUnpinned) {
    map(unpinned_);
    data_ = unpinned_->data();
    capacity_ = bytes;
    fallback_reason_ = "it was asked for unpinned";
    return;
  }
  reserve_memory(backend, MemorySpace::kPinned, bytes);
  try {
    map(pages_);
    data_ = pages_->data();
    capacity_ = bytes;
    try {
      backend.pin_pages(*pages_);
      backend.account(MemorySpace::kPinned).commit(bytes);
      return;
    } catch (const Error& error) {
      fallback_reason_ = error.what();
    }
  } catch (...) {
    rollback_unless_abandoned(bytes);
    throw;
  }
  rollback_unless_abandoned(bytes);  // the buffer counts its own memory
  if (sharing == PageSharing::kShared) unpinned_ = std::move(pages_);
  pages_.reset();
  buffer_.emplace(device_, bytes);
  data_ = buffer_->data();
}

PinnedArena::~PinnedArena() {
  if (buffer_) return;
  Backend& backend = *device_.backend();
  const bool are_pinned = pages_.has_value();
  if (backend.free_pages(*std::move(are_pinned ? pages_ : unpinned_), are_pinned) && are_pinned) {
    backend.account(MemorySpace::kPinned).release(capacity_);
  }
}

// Called by the constructor when it fails. Pages that a device may still reach stay on the account.
void PinnedArena::rollback_unless_abandoned(std::size_t bytes) noexcept {
  MemoryAccount& account = device_.backend()->account(MemorySpace::kPinned);
  pages_ && pages_->data() == nullptr ? account.commit(bytes) : account.rollback(bytes);
}

PinnedSpan PinnedArena::take(std::size_t bytes, std::size_t alignment) {
  if (!std::has_single_bit(alignment) || alignment > 4096) {
    throw std::invalid_argument("leat: PinnedArena::take: an alignment of " +
                                std::to_string(alignment) + "; a power of two, at most 4096");
  }
  const std::size_t begin = (used_ + alignment - 1) / alignment * alignment;
  if (begin > capacity_ || bytes > capacity_ - begin) {
    throw GpuError(0, "the arena is full", "take " + std::to_string(bytes) + " bytes",
                   device_.name(),
                   std::to_string(used_) + " of its " + std::to_string(capacity_) +
                       " bytes are taken; make it larger");
  }
  used_ = begin + bytes;
  return {data_ + begin, bytes};
}

int PinnedArena::descriptor() const noexcept {
  const std::optional<PageMapping>& pages = unpinned_ ? unpinned_ : pages_;
  return pages ? pages->descriptor() : -1;
}

std::span<std::byte> PinnedArena::shared() const noexcept {
  return {unpinned_ ? unpinned_->data() : data_, capacity_};
}

void PinnedArena::take_over(std::size_t bytes) noexcept {
  if (unpinned_ && unpinned_->data() != data_) std::memcpy(data_, unpinned_->data(), bytes);
}

PagePlacement PinnedArena::placement() const {
  if (pages_) return placement_of(*pages_);
  return {.bytes = capacity_, .numa_node = device_.info().numa_node};
}

}  // namespace leat::gpu
