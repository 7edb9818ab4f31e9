#include "leat/gpu/cuda/copier.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "leat/csp/base/assert.h"

namespace leat::gpu::cuda {
namespace {

cudaMemcpyKind kind_of(CopyDirection direction) noexcept {
  switch (direction) {
    case CopyDirection::kHostToDevice: return cudaMemcpyHostToDevice;
    case CopyDirection::kDeviceToHost: return cudaMemcpyDeviceToHost;
    case CopyDirection::kDeviceToDevice: return cudaMemcpyDeviceToDevice;
  }
  LEAT_ASSERT(false, "an unknown copy direction");
}

// Calls `f` for each piece of `range` whose host side lies within one step.
template <class F>
void for_each_piece(CopyRange range, CopyDirection direction, F&& f) {
  while (range.bytes > 0) {
    const void* const host = direction == CopyDirection::kHostToDevice ? range.from : range.to;
    const std::size_t bytes =
        direction == CopyDirection::kDeviceToDevice ? range.bytes : within_step(host, range.bytes);
    f(CopyRange{range.to, range.from, bytes});
    range = {static_cast<std::byte*>(range.to) + bytes,
             static_cast<const std::byte*>(range.from) + bytes, range.bytes - bytes};
  }
}

// Several copies as one operation, their sources read in stream order. cudaMemcpyBatchAsync is in
// the toolkit from CUDA 12.8 on; its signature changed in 13.0.
constexpr bool kToolkitHasBatches = CUDART_VERSION >= 12080;

cudaError_t copy_together([[maybe_unused]] std::span<void*> to,
                          [[maybe_unused]] std::span<const void*> from,
                          [[maybe_unused]] std::span<std::size_t> bytes,
                          [[maybe_unused]] cudaStream_t stream) noexcept {
#if CUDART_VERSION >= 12080
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
#if CUDART_VERSION >= 13000
  return cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), to.size(), &attributes, &first,
                              1, stream);
#else
  std::size_t failed = 0;
  // It takes sources as void*, and does not write to them.
  return cudaMemcpyBatchAsync(to.data(), const_cast<void**>(from.data()), bytes.data(), to.size(),
                              &attributes, &first, 1, &failed, stream);
#endif
#else
  return cudaErrorNotSupported;
#endif
}

bool driver_has_batches() noexcept {
  int version = 0;  // needs no context
  const cudaError_t code = cudaDriverGetVersion(&version);
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
  return code == cudaSuccess && version >= 12'080;
}

bool is_unsupported(cudaError_t code) noexcept {
  return code == cudaErrorNotSupported || code == cudaErrorCallRequiresNewerDriver;
}

}  // namespace

std::size_t within_step(const void* address, std::size_t bytes) noexcept {
  const std::size_t into = reinterpret_cast<std::uintptr_t>(address) % kRegistrationStep;
  return std::min(bytes, kRegistrationStep - into);
}

Copier::Copier(const Context& context) noexcept
    : context_(context), batches_(kToolkitHasBatches && driver_has_batches()) {}

void Copier::copy(cudaStream_t stream, CopyRange range, CopyDirection direction) const {
  for_each_piece(range, direction, [&](const CopyRange& piece) {
    context_.enqueue(
        "cudaMemcpyAsync",
        [&] {
          return cudaMemcpyAsync(piece.to, piece.from, piece.bytes, kind_of(direction), stream);
        },
        piece.bytes);
  });
}

void Copier::copy_batch(cudaStream_t stream, std::span<const CopyRange> copies,
                        CopyDirection direction) {
  constexpr std::size_t kAtOnce = 64;  // on the stack: nothing is allocated
  std::array<void*, kAtOnce> to;
  std::array<const void*, kAtOnce> from;
  std::array<std::size_t, kAtOnce> bytes;
  std::size_t count = 0;
  const auto flush = [&] {
    const std::size_t pieces = count;
    count = 0;
    if (pieces > 1 && batches()) {
      const cudaError_t code = context_.attempt(
          [&] {
            return copy_together({to.data(), pieces}, {from.data(), pieces}, {bytes.data(), pieces},
                                 stream);
          },
          Context::Scope::CaptureMode::kCallers);
      if (code == cudaSuccess) return;
      if (!is_unsupported(code)) throw_error(code, "cudaMemcpyBatchAsync", context_.device_name());
      batches_.store(false, std::memory_order_relaxed);
    }
    for (std::size_t i = 0; i < pieces; ++i) copy(stream, {to[i], from[i], bytes[i]}, direction);
  };
  for (const CopyRange& range : copies) {
    for_each_piece(range, direction, [&](const CopyRange& piece) {
      to[count] = piece.to;
      from[count] = piece.from;
      bytes[count] = piece.bytes;
      if (++count == kAtOnce) flush();
    });
  }
  if (count > 0) flush();
}

}  // namespace leat::gpu::cuda
