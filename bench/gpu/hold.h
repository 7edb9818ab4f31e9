// Holds a stream while work is enqueued behind, so that the device has all of it when it begins.
//
// Example
//   hold.close(stream);
//   ...                    // enqueue; nothing of it runs
//   hold.open();
#pragma once

#include <cstdint>

#include "leat/csp/channel.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/stream.h"

namespace bench {

/// On CUDA a kernel of one thread that spins on a flag in pinned memory, and gives up by itself
/// after 30 s; on the host device a kernel that waits on a channel. At most one stream at a time.
/// Allocates nothing after it was made.
///
/// On the host device it occupies the compute engine: other kernels wait too.
class Hold {
 public:
  /// Has the kernel run once: CUDA loads it at its first launch, for which it may have to wait for
  /// all that runs.
  explicit Hold(const leat::gpu::Device& device);
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  /// Opens it: nothing queued may be left behind it.
  ~Hold();

  void close(const leat::gpu::StreamRef& stream);
  /// From any thread. Does nothing where none is closed.
  void open() noexcept;
  /// Whether a hold gave up, so that what was measured means nothing.
  [[nodiscard]] bool expired() const noexcept;

 private:
  struct Token {};

  leat::gpu::PinnedBuffer words_;  // CUDA's HoldWords
  std::uint32_t number_ = 0;       // of the latest hold
  bool closed_ = false;
  const leat::Channel<Token> opened_{1, "hold"};
};

/// Has the device make hundreds of events of both kinds whose records are pending at the same time,
/// and give them back: what is measured afterwards finds them in its pools.
void fill_pools(const leat::gpu::Device& device, Hold& hold);

}  // namespace bench
