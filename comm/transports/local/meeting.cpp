// The work of an operation: the owner of a block reads it of all inputs, and writes it into all
// outputs. Blocks do not overlap, and each is read before it is written: so inputs may be outputs.
#include <algorithm>

#include "leat/comm/transports/local/group.h"
#include "leat/csp/base/cpu_count.h"

namespace leat::comm {
namespace {

// Work of at most so many bytes in all is not worth a wake-up.
constexpr std::uint64_t kAloneBytes = std::uint64_t{64} << 10;
// How many CPUs share the regions of an operation.
const auto kCpus = static_cast<std::size_t>(usable_cpus());
// Of each rank's elements, so that a block of a few ranks fits into a core's second cache.
constexpr std::uint64_t kBlockBytes = std::uint64_t{32} << 10;

// Where element 0 would be, if element `first` is at `data`. Not a pointer into an object.
void* element_0(const void* data, std::uint64_t first, std::size_t size) noexcept {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data) - first * size);
}

}  // namespace

// What is copied is the sum of one rank's input alone.
void Meeting::prepare(bool moves_data) noexcept {
  const std::size_t size = gpu::size_of(signature.dtype);
  const std::size_t parts = operations.size();
  const bool is_here = moves_data && !signature.on_device;
  const std::uint64_t bytes = is_here ? signature.count * size : 0;
  block_elements = bytes * parts <= kAloneBytes ? signature.count : kBlockBytes / size;
  blocks = bytes == 0 ? 0 : (signature.count + block_elements - 1) / block_elements;
  std::uint64_t samples = 0;
  for (const Operation* const one : operations) samples += one->samples;
  for (Operation* const one : operations) {
    if (signature.on_device) one->total_samples = samples;
  }
  if (blocks == 0) return;
  for (std::size_t part = 0; part < parts; ++part) {
    const Operation& one = *operations[part];
    inputs[part] = {one.in, signature.is_weighted ? weight_of(one.samples, samples) : 1.0F};
    outputs[part] = one.out;
    const std::uint64_t first =
        chunk_of(signature.count, static_cast<int>(part), static_cast<int>(parts)).first;
    if (signature.kind == OperationKind::kReduceScatter) {
      outputs[part] = element_0(one.out, first, size);
    } else if (signature.kind == OperationKind::kAllGather) {
      inputs[part].data = element_0(one.in, first, size);
    } else if (signature.kind == OperationKind::kBroadcast) {
      inputs[part].data = static_cast<int>(part) == signature.root ? one.out : nullptr;
    }
  }
  for (std::size_t i = 0; blocks > 1 && i < regions.size(); ++i) {
    const auto region = chunk_of(blocks, static_cast<int>(i), static_cast<int>(regions.size()));
    regions[i].next.store(region.first, std::memory_order_relaxed);
    regions[i].end = region.second;
  }
}

// The region of the caller's CPU first: it has the elements in its cache from the time before.
void Meeting::do_blocks() noexcept {
  if (blocks <= 1) {  // nobody helps
    if (blocks == 1) do_block(0);
    return;
  }
  const auto mine =
      static_cast<std::size_t>(std::max(current_cpu(), 0)) % kCpus * regions.size() / kCpus;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    Region& region = regions[(mine + i) % regions.size()];
    while (region.next.load(std::memory_order_relaxed) < region.end) {
      const std::uint64_t block = region.next.fetch_add(1, std::memory_order_relaxed);
      if (block < region.end) do_block(block);
    }
  }
}

bool Meeting::has_blocks() const noexcept {
  return std::ranges::any_of(regions, [](const Region& region) {
    return region.next.load(std::memory_order_relaxed) < region.end;
  });
}

void Meeting::do_block(std::uint64_t block) noexcept {
  const std::uint64_t first = block * block_elements;
  const std::uint64_t second = std::min(first + block_elements, signature.count);
  const std::span<const Input> from(inputs);
  const std::span<void* const> to(outputs);
  const auto combine = [&](auto of, auto into, std::uint64_t from_element,
                           std::uint64_t to_element) {
    reduce(signature.dtype, signature.reduction, of, into, from_element, to_element);
  };
  const bool scatters = signature.kind == OperationKind::kReduceScatter;
  if (signature.kind == OperationKind::kSend) return combine(from, to.subspan(1), first, second);
  if (!scatters && signature.kind != OperationKind::kAllGather) {
    return combine(from, to, first, second);
  }
  for (std::size_t rank = 0; rank < from.size(); ++rank) {  // those whose chunks are in the block
    const auto chunk =
        chunk_of(signature.count, static_cast<int>(rank), static_cast<int>(from.size()));
    combine(scatters ? from : from.subspan(rank, 1), scatters ? to.subspan(rank, 1) : to,
            std::max(first, chunk.first), std::min(second, chunk.second));
  }
}

}  // namespace leat::comm
