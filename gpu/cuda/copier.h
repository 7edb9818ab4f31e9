// Enqueues copies: in pieces where they cross registrations, together where CUDA can.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <span>

#include "leat/gpu/backend/backend.h"
#include "leat/gpu/cuda/context.h"

namespace leat::gpu::cuda {

/// Pages are registered in steps that end at multiples of this address, and no copy from or to
/// pinned memory crosses one: CUDA refuses a copy whose host range lies in two registrations. So no
/// table of registrations is needed to copy.
inline constexpr std::size_t kRegistrationStep = std::size_t{256} << 20;

/// The bytes from `address` to the end of its step, at most `bytes`.
[[nodiscard]] std::size_t within_step(const void* address, std::size_t bytes) noexcept;

/// Of one device. Thread-safe.
class Copier {
 public:
  explicit Copier(const Context& context) noexcept;

  /// As Backend's. Throw GpuError.
  void copy(cudaStream_t stream, CopyRange range, CopyDirection direction) const;
  void copy_batch(cudaStream_t stream, std::span<const CopyRange> copies, CopyDirection direction);
  /// False if toolkit or driver is older than them, and once a driver has said that it does not
  /// know them.
  [[nodiscard]] bool batches() const noexcept { return batches_.load(std::memory_order_relaxed); }

 private:
  const Context& context_;
  std::atomic<bool> batches_;
};

}  // namespace leat::gpu::cuda
