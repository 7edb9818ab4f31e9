// Enqueues copies: divided if they cross registrations, several as one operation if CUDA can.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <span>

#include "leat/gpu/backend/backend.h"
#include "leat/gpu/cuda/context.h"

namespace leat::gpu::cuda {

/// Pages are registered in steps that end at multiples of this address. Copies from and to pinned
/// memory are cut there, because CUDA refuses a copy whose host range lies in two registrations. So
/// no table of registrations is needed.
inline constexpr std::size_t kRegistrationStep = std::size_t{256} << 20;

/// Returns the number of bytes from `address` to the end of its step, at most `bytes`.
[[nodiscard]] std::size_t within_step(const void* address, std::size_t bytes) noexcept;

/// The copies of one device. Thread-safe.
class Copier {
 public:
  explicit Copier(const Context& context) noexcept;

  /// See Backend::copy_async. Throws GpuError.
  void copy(cudaStream_t stream, CopyRange range, CopyDirection direction) const;
  /// See Backend::copy_batch_async. Throws GpuError.
  void copy_batch(cudaStream_t stream, std::span<const CopyRange> copies, CopyDirection direction);
  /// Returns whether several copies are enqueued as one operation. False if the toolkit or the
  /// driver is too old, and once the driver has refused one.
  [[nodiscard]] bool batches() const noexcept { return batches_.load(std::memory_order_relaxed); }

 private:
  const Context& context_;
  std::atomic<bool> batches_;
};

}  // namespace leat::gpu::cuda
