// What the trainer tells the exchange's fiber, and the fibers that wait for a device in between.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "leat/comm/transports/world.h"
#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"

namespace leat::comm {

/// A message to the exchange's fiber. A trivial value.
struct TrainerCall {
  enum class Kind : std::uint8_t {
    kReady,      // this rank's part of a gradient can be exchanged: `given`, or empty
    kAwaited,    // the trainer awaits the gradient
    kStagedIn,   // a piece was copied to its slot
    kStagedOut,  // a piece was copied from its slot
    kStop,       // the exchange is being destroyed
  };
  Kind kind = Kind::kReady;
  bool given = false;
  std::uint32_t index = 0;  // of the gradient, or of the piece under way
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
};

/// Sends calls once the work before them on a stream has run. Each stream has a fiber, which awaits
/// its events in order. Used by the trainer's fiber or thread, and by the exchange's fiber, each
/// with an object of its own. Not thread-safe.
class StreamCalls {
 public:
  /// Fibers are launched into `fibers`, which ends before this object. At most `most` calls are
  /// under way on a stream.
  StreamCalls(World& world, TaskGroup& fibers, Channel<TrainerCall> calls, std::size_t most)
      : world_(world), fibers_(fibers), calls_(std::move(calls)), most_(most) {}

  /// Sends `call` once the work enqueued on `stream` so far has run: at once, if it has. A device
  /// that has failed fails the world. Throws as Event::record.
  void after(const gpu::StreamRef& stream, const TrainerCall& call);

 private:
  struct Waiting {
    gpu::Event event;
    TrainerCall call;
  };
  struct OneStream {
    gpu::StreamRef stream;
    Channel<Waiting> waiting;
  };
  [[nodiscard]] const Channel<Waiting>& waiting_on(const gpu::StreamRef& stream);

  World& world_;
  TaskGroup& fibers_;
  const Channel<TrainerCall> calls_;
  const std::size_t most_;
  std::vector<OneStream> streams_;
};

}  // namespace leat::comm
