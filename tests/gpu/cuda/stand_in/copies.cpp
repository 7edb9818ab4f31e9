// Copies and fills: what they touch is checked when they are enqueued, and again when they run.
#include <algorithm>
#include <cstring>

#include "tests/gpu/cuda/stand_in/state.h"

namespace leat::stand_in {
namespace {

/// Some bytes of a copy.
struct Piece {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  AllocationRef to_memory;        // null: pageable
  AllocationRef from_memory;      // null: pageable
  std::vector<std::byte> staged;  // the source, where it had to be read at once
};

bool on_device(const AllocationRef& memory) {
  return memory != nullptr && memory->kind == Allocation::Kind::kDevice;
}

cudaError_t resolve(Lock& lock, Piece& piece, cudaMemcpyKind kind) {
  if (piece.to == nullptr || piece.from == nullptr) return cudaErrorInvalidValue;
  if (!find_memory(lock, piece.to, piece.bytes, piece.to_memory) ||
      !find_memory(lock, piece.from, piece.bytes, piece.from_memory)) {
    return cudaErrorInvalidValue;
  }
  const bool to = on_device(piece.to_memory);
  const bool from = on_device(piece.from_memory);
  switch (kind) {
    case cudaMemcpyHostToHost: return to || from ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyHostToDevice: return !to || from ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDeviceToHost: return to || !from ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDeviceToDevice: return !to || !from ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDefault: return cudaSuccess;
  }
  return cudaErrorInvalidMemcpyDirection;
}

// Whether a copy on the stream need not treat that memory as pageable.
bool pinned_for(const AllocationRef& memory, const Stream& stream) {
  return memory != nullptr &&
         (on_device(memory) || memory->portable || memory->device == stream.device);
}

void stage(Piece& piece) {
  const auto* const from = static_cast<const std::byte*>(piece.from);
  piece.staged.assign(from, from + piece.bytes);
  piece.from = nullptr;
}

void copy(const Piece& piece) {
  const void* const from = piece.from != nullptr ? piece.from : piece.staged.data();
  std::memmove(piece.to, from, piece.bytes);
}

// One operation that copies all of `pieces`. Pageable sources are read before it returns; for
// pageable destinations it waits.
cudaError_t enqueue_copies(Lock& lock, const StreamRef& stream, std::vector<Piece> pieces) {
  bool wait = false;
  Operation operation;
  Copied& copied = state().copied;
  for (Piece& piece : pieces) {
    ++copied.pieces;
    copied.bytes += piece.bytes;
    copied.largest = std::max(copied.largest, piece.bytes);
    if (!pinned_for(piece.to_memory, *stream) || !pinned_for(piece.from_memory, *stream)) {
      ++state().pageable_copies;
    }
    if (piece.from_memory == nullptr) stage(piece);
    wait |= piece.to_memory == nullptr;
    for (const AllocationRef& memory : {piece.to_memory, piece.from_memory}) {
      if (memory != nullptr) operation.uses.push_back(memory);
    }
  }
  operation.run = [pieces = std::move(pieces)](Lock& held) {
    held.unlock();
    for (const Piece& piece : pieces) copy(piece);
    held.lock();
  };
  const cudaError_t code = enqueue(lock, stream, std::move(operation));
  if (code != cudaSuccess || !wait || stream->capture != nullptr) return code;
  wait_for(lock, end_of(stream));
  return stream->device->failed;
}

cudaError_t enqueue_fill(Lock& lock, const StreamRef& stream, void* to, int value,
                         std::size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  AllocationRef memory;
  if (!find_memory(lock, to, bytes, memory) || memory == nullptr) return cudaErrorInvalidValue;
  const auto fill = [to, value, bytes](Lock& held) {
    held.unlock();
    std::memset(to, value, bytes);
    held.lock();
  };
  return enqueue(lock, stream, {.run = fill, .uses = {memory}});
}

#if CUDART_VERSION >= 13000

bool overlap(const Piece& a, const Piece& b) {
  const auto* const first = static_cast<const std::byte*>(a.to);
  const auto* const second = static_cast<const std::byte*>(b.to);
  return first < second + b.bytes && second < first + a.bytes;
}

bool attributes_valid(std::size_t count, const cudaMemcpyAttributes* attributes,
                      const std::size_t* first, std::size_t number) {
  if (attributes == nullptr || first == nullptr || number == 0 || number > count) return false;
  for (std::size_t i = 0; i < number; ++i) {
    const cudaMemcpySrcAccessOrder order = attributes[i].srcAccessOrder;
    if (order < cudaMemcpySrcAccessOrderStream || order > cudaMemcpySrcAccessOrderAny) return false;
    if (i == 0 ? first[0] != 0 : first[i] <= first[i - 1]) return false;
    if (first[i] >= count) return false;
  }
  return true;
}

#endif

}  // namespace
}  // namespace leat::stand_in

using namespace leat::stand_in;  // NOLINT(google-build-using-namespace): CUDA's functions are
                                 // global

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  return api("cudaMemcpyAsync", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    const StreamRef stream = find_stream(lock, handle);
    if (bytes == 0) return cudaSuccess;
    Piece piece{.to = to, .from = from, .bytes = bytes};
    const cudaError_t code = resolve(lock, piece, kind);
    return code != cudaSuccess ? code : enqueue_copies(lock, stream, {std::move(piece)});
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return api("cudaMemcpy", Needs::kSafeToCapture, [&](Lock& lock) -> cudaError_t {
    const StreamRef stream = find_stream(lock, cudaStreamLegacy);
    if (bytes == 0) return cudaSuccess;
    Piece piece{.to = to, .from = from, .bytes = bytes};
    cudaError_t code = resolve(lock, piece, kind);
    if (code == cudaSuccess) code = enqueue_copies(lock, stream, {std::move(piece)});
    if (code != cudaSuccess) return code;
    wait_for(lock, end_of(stream));
    return stream->device->failed;
  });
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return api("cudaMemset", Needs::kSafeToCapture, [&](Lock& lock) -> cudaError_t {
    return enqueue_fill(lock, find_stream(lock, cudaStreamLegacy), to, value, bytes);
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t handle) {
  return api("cudaMemsetAsync", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    return enqueue_fill(lock, find_stream(lock, handle), to, value, bytes);
  });
}

#if CUDART_VERSION >= 13000  // before, with another signature

cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const std::size_t* bytes,
                                 std::size_t count, cudaMemcpyAttributes* attributes,
                                 std::size_t* first, std::size_t attribute_count,
                                 cudaStream_t handle) {
  return api("cudaMemcpyBatchAsync", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    if (handle == nullptr || handle == cudaStreamLegacy) return cudaErrorInvalidValue;
    if (to == nullptr || from == nullptr || bytes == nullptr) return cudaErrorInvalidValue;
    if (!attributes_valid(count, attributes, first, attribute_count)) return cudaErrorInvalidValue;
    const StreamRef stream = find_stream(lock, handle);
    std::vector<Piece> pieces(count);
    std::size_t of = 0;  // the attributes of the piece
    for (std::size_t i = 0; i < count; ++i) {
      if (of + 1 < attribute_count && first[of + 1] == i) ++of;
      Piece& piece = pieces[i];
      piece = {.to = to[i], .from = from[i], .bytes = bytes[i]};
      if (piece.bytes == 0) return cudaErrorInvalidValue;
      const cudaError_t code = resolve(lock, piece, cudaMemcpyDefault);
      if (code != cudaSuccess) return code;
      // Any: whenever CUDA likes, and that may be now.
      if (attributes[of].srcAccessOrder != cudaMemcpySrcAccessOrderStream) stage(piece);
    }
    std::vector<const Piece*> sorted;
    for (const Piece& piece : pieces) sorted.push_back(&piece);
    std::ranges::sort(sorted, {}, [](const Piece* piece) { return piece->to; });
    for (std::size_t i = 1; i < count; ++i) {
      if (overlap(*sorted[i - 1], *sorted[i])) die("a batch copies twice to the same bytes");
    }
    return enqueue_copies(lock, stream, std::move(pieces));
  });
}

#endif

}  // extern "C"
