#include "bench/gpu/link_memory.h"

#include <new>

namespace bench {
namespace {

constexpr std::align_val_t kPage{4096};

// Odd, so that no two places have the same word; its high bits differ in neighbours.
constexpr std::uint64_t kStep = 0x9E37'79B9'7F4A'7C15;

bool is_pattern(leat::gpu::PinnedSpan memory, std::size_t bytes, std::uint64_t seed) {
  const auto* const words = reinterpret_cast<const std::uint64_t*>(memory.data());
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < bytes / sizeof *words; ++i) {
    wrong |= words[i] ^ (((seed << 40) + i) * kStep);
  }
  return wrong == 0;
}

}  // namespace

const char* to_string(HostKind kind) noexcept {
  switch (kind) {
    case HostKind::kPageable: return "pageable";
    case HostKind::kPinned: return "pinned";
    case HostKind::kWriteCombined: return "write_combined";
    case HostKind::kArena: return "arena";
    case HostKind::kShared: return "memfd";
  }
  return "?";
}

void LinkMemory::FreeAligned::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, kPage);
}

LinkMemory::LinkMemory(const leat::gpu::Device& device, std::size_t capacity)
    : capacity_(capacity), stream_(device), device_(device, capacity), scratch_(device, capacity) {}

leat::gpu::PinnedSpan LinkMemory::host(HostKind kind) {
  if (kind_ == kind) return host_;
  kind_.reset();
  pageable_.reset();
  pinned_.reset();
  arena_.reset();
  const leat::gpu::Device& device = stream_.device();
  switch (kind) {
    case HostKind::kPageable:
      pageable_.reset(static_cast<std::byte*>(::operator new(capacity_, kPage)));
      host_ = {pageable_.get(), capacity_};
      break;
    case HostKind::kPinned:
    case HostKind::kWriteCombined:
      pinned_.emplace(device, capacity_,
                      kind == HostKind::kPinned ? leat::gpu::PinnedUse::kReadWrite
                                                : leat::gpu::PinnedUse::kWriteCombined);
      host_ = pinned_->span();
      break;
    case HostKind::kArena:
    case HostKind::kShared:
      arena_.emplace(device, capacity_,
                     kind == HostKind::kShared ? leat::gpu::PageSharing::kShared
                                               : leat::gpu::PageSharing::kPrivate);
      host_ = arena_->take(capacity_);
      break;
  }
  fill(host_, capacity_, 0);  // all of its pages are there
  kind_ = kind;
  return host_;
}

void LinkMemory::fill(leat::gpu::PinnedSpan memory, std::size_t bytes, std::uint64_t seed) {
  auto* const words = reinterpret_cast<std::uint64_t*>(memory.data());
  for (std::size_t i = 0; i < bytes / sizeof *words; ++i) words[i] = ((seed << 40) + i) * kStep;
}

void LinkMemory::fill_device(std::size_t bytes, std::uint64_t seed) {
  fill(scratch_.span(), bytes, seed);
  leat::gpu::copy_async(stream_, device_.subspan(0, bytes), scratch_.subspan(0, bytes));
  stream_.sync();
}

bool LinkMemory::host_is(HostKind kind, std::size_t bytes, std::uint64_t seed) {
  const leat::gpu::PinnedSpan memory = host(kind);
  if (kind != HostKind::kWriteCombined) return is_pattern(memory, bytes, seed);
  leat::gpu::copy_async(stream_, device_.subspan(0, bytes), memory.subspan(0, bytes));
  return device_is(bytes, seed);
}

bool LinkMemory::device_is(std::size_t bytes, std::uint64_t seed) {
  fill(scratch_.span(), bytes, ~seed);  // what was there is not taken for an answer
  leat::gpu::copy_async(stream_, scratch_.subspan(0, bytes), device_.subspan(0, bytes));
  stream_.sync();
  return is_pattern(scratch_.span(), bytes, seed);
}

std::string placement_of(const leat::gpu::PinnedArena& arena) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const leat::gpu::PagePlacement where = arena.placement();
  std::string text = std::to_string(where.bytes / kMiB) + " MiB, " +
                     std::to_string(where.huge_bytes / kMiB) + " MiB in huge pages, NUMA node " +
                     std::to_string(where.numa_node) + ": ";
  text += where.node_known ? std::to_string(where.node_bytes / kMiB) + " MiB" : "unknown";
  if (!arena.fallback().empty()) text += "; not registered: " + arena.fallback();
  return text;
}

}  // namespace bench
