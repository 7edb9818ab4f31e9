// The streams that this backend has created. Memory that they use is not freed before their work
// has run: CUDA does not document that cudaHostUnregister, cudaFree and cudaFreeHost wait.
//
// Always true under mutex_: live_ has every stream from create() until cudaStreamDestroy is called.
// cudaStreamDestroy is called once the stream was destroyed, nothing holds it, and its queue was
// seen empty; the next create, destroy or release checks this. So a caller that has to wait for the
// stream's work finds the stream here. A stream that is destroyed while it is captured, or on a
// failed device, is never seen empty: it stays until the backend is destroyed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "leat/gpu/cuda/context.h"

namespace leat::gpu::cuda {

/// The streams of one device. Thread-safe.
class StreamRegistry {
 public:
  explicit StreamRegistry(const Context& context) noexcept : context_(context) {}
  /// Destroys all streams. CUDA frees each once its queued work has run.
  ~StreamRegistry();
  StreamRegistry(const StreamRegistry&) = delete;
  StreamRegistry& operator=(const StreamRegistry&) = delete;

  /// Makes a stream. Throws GpuError.
  [[nodiscard]] cudaStream_t create();
  /// Destroys a stream. Does not wait.
  void destroy(cudaStream_t stream) noexcept;
  /// Keeps the stream until an equal number of calls of release(), because memory was allocated in
  /// its order and will be freed in its order. No effect on a foreign stream.
  void retain(cudaStream_t stream) noexcept;
  /// Ends one retain().
  void release(cudaStream_t stream) noexcept;
  /// Blocks until all work queued on the streams has run. Returns false if it cannot tell for every
  /// stream: a stream is being captured into a graph (its earlier work may not have run, and
  /// waiting would invalidate the capture), or CUDA returns an error.
  [[nodiscard]] bool sync_all() noexcept;
  /// Returns whether the stream is being captured into a graph; false if CUDA does not say.
  [[nodiscard]] bool is_captured(cudaStream_t stream) const noexcept;

 private:
  struct Live {
    cudaStream_t stream = nullptr;
    std::uint64_t number = 0;
    std::size_t holders = 0;
    bool destroyed = false;
  };
  [[nodiscard]] Live* find(cudaStream_t stream) noexcept;
  /// Destroys the streams that are over.
  void collect() noexcept;

  const Context& context_;
  std::mutex mutex_;  // never held across a wait
  std::uint64_t next_number_ = 0;
  std::vector<Live> live_;  // by number, ascending
};

}  // namespace leat::gpu::cuda
