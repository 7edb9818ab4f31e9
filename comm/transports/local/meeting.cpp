// The work of an operation: the owner of a block reads it of all inputs, and writes it into all
// outputs. Blocks do not overlap, and each is read before it is written: so inputs may be outputs.
#include <algorithm>
#include <cstring>

#include "leat/comm/transports/local/group.h"
#include "leat/csp/wait/cpu_count.h"

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

void* element(const void* element_0, std::uint64_t index, std::size_t size) noexcept {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(element_0) + index * size);
}

void copy(void* to, const void* from, std::uint64_t first, std::uint64_t second,
          std::size_t size) noexcept {
  if (to == from || first == second) return;
  std::memcpy(element(to, first, size), element(from, first, size), (second - first) * size);
}

}  // namespace

Meeting::Meeting(Group& home)
    : group(home),
      operations(std::max<std::size_t>(home.members.size(), 2)),
      inputs(operations.size()),
      outputs(operations.size()) {}

void Meeting::prepare(bool moves_data) noexcept {
  const std::size_t size = gpu::size_of(signature.dtype);
  const std::uint64_t bytes = moves_data ? signature.count * size : 0;
  block_elements = bytes * parts <= kAloneBytes ? signature.count : kBlockBytes / size;
  blocks = bytes == 0 ? 0 : (signature.count + block_elements - 1) / block_elements;
  units_left.store(blocks + 1, std::memory_order_relaxed);
  if (blocks == 0) return;
  if (blocks > 1) divide();
  std::uint64_t samples = 0;
  if (signature.is_weighted) {
    for (const Operation* const one : all()) samples += one->samples;
  }
  for (std::size_t rank = 0; rank < parts; ++rank) {
    const Operation& one = *operations[rank];
    inputs[rank] = {one.in, signature.is_weighted ? weight_of(one.samples, samples) : 1.0F};
    outputs[rank] = one.out;
    const std::uint64_t first =
        chunk_of(signature.count, static_cast<int>(rank), static_cast<int>(parts)).first;
    if (signature.kind == OperationKind::kReduceScatter) {
      outputs[rank] = element_0(one.out, first, size);
    } else if (signature.kind == OperationKind::kAllGather) {
      inputs[rank].data = element_0(one.in, first, size);
    }
  }
}

void Meeting::divide() noexcept {
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    regions[i].next.store(first, std::memory_order_relaxed);
    first += blocks / regions.size() + (i < blocks % regions.size() ? 1 : 0);
    regions[i].end = first;
  }
}

// The region of the caller's CPU first: it has the elements in its cache from the time before.
std::uint64_t Meeting::do_blocks() noexcept {
  if (blocks <= 1) {  // nobody helps
    if (blocks == 1) do_block(0);
    return blocks;
  }
  const auto mine =
      static_cast<std::size_t>(std::max(current_cpu(), 0)) % kCpus * regions.size() / kCpus;
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    Region& region = regions[(mine + i) % regions.size()];
    while (region.next.load(std::memory_order_relaxed) < region.end) {
      const std::uint64_t block = region.next.fetch_add(1, std::memory_order_relaxed);
      if (block >= region.end) break;
      do_block(block);
      ++done;
    }
  }
  return done;
}

bool Meeting::has_blocks() const noexcept {
  return std::ranges::any_of(regions, [](const Region& region) {
    return region.next.load(std::memory_order_relaxed) < region.end;
  });
}

void Meeting::do_block(std::uint64_t block) noexcept {
  const std::uint64_t first = block * block_elements;
  const std::uint64_t second = std::min(first + block_elements, signature.count);
  const std::size_t size = gpu::size_of(signature.dtype);
  const std::span<const Input> from(inputs.data(), parts);
  const std::span<void* const> to(outputs.data(), parts);
  // Calls f(rank, first, second) for the part of the block that is in each rank's chunk.
  const auto each_chunk = [&](const auto& f) {
    for (std::size_t rank = 0; rank < parts; ++rank) {
      const auto chunk = chunk_of(signature.count, static_cast<int>(rank), static_cast<int>(parts));
      if (chunk.second <= first) continue;
      if (chunk.first >= second) break;
      f(rank, std::max(first, chunk.first), std::min(second, chunk.second));
    }
  };
  const auto copy_to_all = [&](std::size_t source, std::uint64_t from_element,
                               std::uint64_t to_element) {
    for (void* const one : to) copy(one, from[source].data, from_element, to_element, size);
  };
  switch (signature.kind) {
    case OperationKind::kSend:
    case OperationKind::kRecv: copy(to[1], from[0].data, first, second, size); break;
    case OperationKind::kAllReduce:
      reduce(signature.dtype, signature.reduction, from, to, first, second);
      break;
    case OperationKind::kReduceScatter:
      each_chunk([&](std::size_t rank, std::uint64_t from_element, std::uint64_t to_element) {
        reduce(signature.dtype, signature.reduction, from, to.subspan(rank, 1), from_element,
               to_element);
      });
      break;
    case OperationKind::kAllGather: each_chunk(copy_to_all); break;
    case OperationKind::kBroadcast: {
      const auto root = static_cast<std::size_t>(signature.root);
      for (void* const one : to) copy(one, to[root], first, second, size);
      break;
    }
    case OperationKind::kBarrier: break;
  }
}

}  // namespace leat::comm
