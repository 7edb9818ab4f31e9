// The streams that this backend has created, so that pages which they copy from are not unpinned
// under them: CUDA does not say that cudaHostUnregister waits.
//
// Always true under mutex_: live_ has every stream between create() and destroy(); every one that
// was destroyed with work queued has an event in draining_, at its end, until that is seen to be
// done.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "leat/gpu/cuda/context.h"
#include "leat/gpu/cuda/event_pool.h"

namespace leat::gpu::cuda {

/// Thread-safe.
class OwnStreams {
 public:
  OwnStreams(const Context& context, EventPool& events) noexcept
      : context_(context), events_(events) {}

  /// Throws GpuError.
  [[nodiscard]] cudaStream_t create();
  /// CUDA returns at once and lets go of the stream when its queued work has run.
  void destroy(cudaStream_t stream) noexcept;
  /// For memory allocated in its order, which will be freed in its order: CUDA keeps the stream
  /// until as many let_go(). No effect on a foreign stream.
  void keep(cudaStream_t stream) noexcept;
  void let_go(cudaStream_t stream) noexcept;
  /// Blocks until all that is queued on them has run, or the device has failed. One that is being
  /// captured into a graph runs nothing.
  void sync_all() noexcept;

 private:
  struct Live {
    cudaStream_t stream = nullptr;
    std::uint64_t number = 0;
    std::size_t keepers = 0;
    bool destroyed = false;
  };
  [[nodiscard]] Live* find(cudaStream_t stream) noexcept;
  void end(Live& one) noexcept;
  [[nodiscard]] bool next_end(std::uint64_t& next, RecordRef& end) noexcept;
  [[nodiscard]] RecordRef next_draining() noexcept;
  [[nodiscard]] bool is_over(const RecordRef& end) const noexcept;
  /// An event at the end of what is queued; none where nothing is, or nothing will run.
  [[nodiscard]] RecordRef end_of(cudaStream_t stream) noexcept;

  const Context& context_;
  EventPool& events_;
  std::mutex mutex_;  // never held across a wait
  std::uint64_t next_number_ = 0;
  std::vector<Live> live_;  // by number, ascending
  std::vector<RecordRef> draining_;
};

}  // namespace leat::gpu::cuda
