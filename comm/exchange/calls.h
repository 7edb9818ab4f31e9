// What the trainer tells the exchange's fiber, and the fibers that wait for a device in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
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
    // Of a ParameterServer:
    kOpen,  // `operation` is begun, of kind `opens`, of `index` parameters and `pieces`
    kSend,  // a gradient can be sent, for `operation`
    kSendBarrier,
    kFetch,  // weights may be overwritten, for `operation`; `step`: with its gradients
    kFetchBarrier,
    kEndedStep,  // with a bound of staleness: what was not sent of `step` does not come
    kServe,      // the trainer waits until all workers have left
  };
  Kind kind = Kind::kReady;
  Kind opens = Kind::kReady;
  bool given = false;
  std::uint32_t index = 0;  // of the gradient, or of the piece under way
  std::uint32_t pieces = 0;
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  Operation* operation = nullptr;
};

/// Sends calls once the work before them on a stream has run. Each stream has a fiber, which awaits
/// its events in order. Used by the trainer's fiber or thread, and by the exchange's fiber, each
/// with an object of its own. Not thread-safe.
class StreamCalls {
 public:
  /// Whose streams these are: the destructor does not wait for work of the trainer's.
  enum class Streams : std::uint8_t { kOfTrainer, kOfExchange };

  /// At most `most` calls are under way on a stream. `world` outlives this object; `rank` is this
  /// rank of the world.
  StreamCalls(World& world, int rank, Channel<TrainerCall> calls, std::size_t most,
              Streams streams);
  StreamCalls(const StreamCalls&) = delete;
  StreamCalls& operator=(const StreamCalls&) = delete;
  /// Ends the fibers. Waits for the work of the exchange's streams.
  ~StreamCalls();

  /// Sends `call` once the work enqueued on `stream` so far has run, and returns true; or returns
  /// false, if it has run already. If the device fails meanwhile, that fails the world, and the
  /// call is sent. Throws as Event::record; nothing is sent then.
  [[nodiscard]] bool defer(const gpu::StreamRef& stream, const TrainerCall& call);

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
  void run(const Channel<Waiting>& waiting);

  World& world_;
  const int rank_;
  const Channel<TrainerCall> calls_;
  const std::size_t most_;
  const Streams whose_;
  std::vector<OneStream> streams_;
  TaskGroup fibers_;
};

/// Fails the world because of an error of rank `rank`'s own, a device's for example.
void fail_by(World& world, int rank, const std::exception& error) noexcept;

}  // namespace leat::comm
