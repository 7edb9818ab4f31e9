// The streams that this backend has created, so that memory which they use does not go under them:
// CUDA does not say that cudaHostUnregister, cudaFree and cudaFreeHost wait.
//
// Always true under mutex_: live_ has every stream from create() until CUDA was told to destroy it.
// It is told once the stream was destroyed, nothing keeps it, and its queue has been seen to be
// empty, at the next opportunity: so whoever has to wait for its work finds it here. Of one that is
// destroyed while it is captured, or on a device that has failed, that is never seen: it stays
// until the backend goes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "leat/gpu/cuda/context.h"

namespace leat::gpu::cuda {

/// Thread-safe.
class OwnStreams {
 public:
  explicit OwnStreams(const Context& context) noexcept : context_(context) {}
  /// CUDA lets go of each once its queued work has run.
  ~OwnStreams();
  OwnStreams(const OwnStreams&) = delete;
  OwnStreams& operator=(const OwnStreams&) = delete;

  /// Throws GpuError.
  [[nodiscard]] cudaStream_t create();
  /// Does not wait.
  void destroy(cudaStream_t stream) noexcept;
  /// For memory allocated in its order, which will be freed in its order: it stays until as many
  /// let_go(). No effect on a foreign stream.
  void keep(cudaStream_t stream) noexcept;
  void let_go(cudaStream_t stream) noexcept;
  /// Blocks until all that is queued on them has run. False if that was not to be seen of all:
  /// one is being captured into a graph (what was queued there before may still be to come, and to
  /// wait for it would spoil the capture), or CUDA answers with an error.
  [[nodiscard]] bool sync_all() noexcept;
  /// Whether an operation given to it now would go into a graph; false where CUDA does not say.
  [[nodiscard]] bool is_captured(cudaStream_t stream) const noexcept;

 private:
  struct Live {
    cudaStream_t stream = nullptr;
    std::uint64_t number = 0;
    std::size_t keepers = 0;
    bool destroyed = false;
  };
  [[nodiscard]] Live* find(cudaStream_t stream) noexcept;
  /// Tells CUDA of those that are over.
  void sweep() noexcept;

  const Context& context_;
  std::mutex mutex_;  // never held across a wait
  std::uint64_t next_number_ = 0;
  std::vector<Live> live_;  // by number, ascending
};

}  // namespace leat::gpu::cuda
