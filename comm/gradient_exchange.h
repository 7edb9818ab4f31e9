// GradientExchange: sums the gradients of all ranks while they are still being computed, the most
// urgent first.
//
// Example
//   comm::GradientExchange exchange(communicator, gradients, {.policy = comm::Policy::kPriority});
//   exchange.broadcast(parameters_and_buffers, 0);
//   for (auto& batch : feed.epoch(0, stream)) {
//     forward(batch, [&](int i) {                           // before the forward of layer i:
//       if (exchange.await(i, stream)) update(i, stream);   //   its gradient is the mean of all
//     });
//     exchange.begin_step(batch.size());                    // samples of this rank
//     backward([&](int i) { exchange.ready(i, stream); });  // after the backward of layer i
//     exchange.end_backward();                              // other gradients are empty here
//   }
//   exchange.await_all(stream);
//
// Gradients are cut into pieces. Rank 0 orders the pieces that are ready on all ranks, as far ahead
// as the credit allows, and every rank starts them in that order. So no two ranks wait for each
// other's pieces.
//
// The result of a gradient is the mean over all samples of the step: sum of w_r * g_r, where g_r is
// the mean over rank r's n_r samples, and w_r = float(double(n_r) / sum of n_r). The result is
// bit-identical on all ranks, whatever the partition, credit or policy; only under
// Policy::kBucketed a NaN may have another sign and payload.
//
// Memory: a gradient belongs to the exchange from ready(i) to the return of await(i). All gradients
// lie in the memory of one device. If the transport cannot reach that memory, the exchange copies
// through pinned slots of its own. Streams that are given to an exchange must outlive it.
//
// Thread and fiber safety: one fiber or thread of the rank calls an exchange. Any may call stats(),
// and construct another exchange. All ranks construct their exchanges of one communicator in the
// same order.
//
// Errors: std::logic_error or std::invalid_argument at once for a mistake of this rank alone;
// CommMismatch on every rank if the ranks' gradients or options differ, or if a rank destroys its
// exchange while others wait; CommError if a rank is late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/dtype.h"
#include "leat/gpu/stream.h"

namespace leat::comm {

class Exchange;
class Trace;
class Tuner;

/// One gradient, parameter or buffer in a device's memory.
struct Gradient {
  std::string name;  ///< for errors and reports; not empty
  gpu::DeviceSpan data;
  DType dtype = DType::kFloat32;
  /// Its elements.
  [[nodiscard]] std::uint64_t count() const noexcept { return data.size() / gpu::size_of(dtype); }
};

/// Which piece is next.
enum class Policy : std::uint8_t {
  /// The gradient that was ready on all ranks first; of several at one instant, the one declared
  /// last.
  kFifo,
  /// The gradient that the next forward needs first, even if others are under way. Their remaining
  /// pieces wait.
  kPriority,
  /// Buckets of several gradients, beginning with the one declared last: DDP's rule (Li et al.,
  /// VLDB'20). A bucket is sent whole.
  kBucketed,
};

/// What decides which gradient is needed first (Policy::kPriority).
enum class Urgency : std::uint8_t {
  kDeclared,  ///< the order in which they are given to the constructor
  kAwaited,   ///< the order in which rank 0 awaited them first; until then as declared
};

/// How gradients are weighed.
enum class Weights : std::uint8_t {
  kSamples,  ///< by the rank's samples: the result is the mean; not for integers
  kOnes,     ///< 1: the result is the sum
};

/// What is done to a gradient before its exchange and undone after it: clipping, a smaller type.
/// Both functions enqueue work on the stream. Either may be empty.
struct GradientLayer {
  /// What is exchanged in place of gradient `index`; the default: the same memory and type.
  std::function<Gradient(std::size_t index, const Gradient& from)> declare = {};
  /// From the gradient to what is exchanged; on the stream of ready().
  std::function<void(std::size_t index, const Gradient& from, const Gradient& to,
                     const gpu::StreamRef& stream)>
      before = {};
  /// From the result, in `to`, to the gradient `from`; on the stream of await().
  std::function<void(std::size_t index, const Gradient& from, const Gradient& to,
                     const gpu::StreamRef& stream)>
      after = {};
};

/// Options of a GradientExchange. All but device, layers, trace and tuner are equal on all ranks.
struct ExchangeOptions {
  /// The device whose memory holds the gradients. None: memory that the CPU reaches.
  std::optional<gpu::Device> device = {};
  Policy policy = Policy::kPriority;
  Urgency urgency = Urgency::kDeclared;
  Weights weights = Weights::kSamples;
  /// await() waits for all gradients of the step: a barrier.
  bool synchronous = false;
  /// The size of a piece in bytes, rounded down to whole elements, at least one; more than 0. Not
  /// for Policy::kBucketed.
  std::size_t partition_bytes = std::size_t{4} << 20;
  /// Bytes in flight: the next piece starts if it fits, or if nothing is in flight. More than 0.
  std::size_t credit_bytes = std::size_t{16} << 20;
  /// Policy::kBucketed: limits in bytes, the first for the first bucket; the last one repeats. A
  /// bucket is closed once it has at least that size. Not empty, each more than 0.
  std::vector<std::size_t> bucket_bytes = {std::size_t{1} << 20, std::size_t{25} << 20};
  /// The first is applied first before the exchange, and last after it.
  std::vector<GradientLayer> layers = {};
  /// Records pieces and calls; none: nothing is recorded.
  std::shared_ptr<Trace> trace = {};
  /// Chooses partition_bytes and credit_bytes in the first steps, about two steps for each
  /// measurement. All ranks have one, or none; rank 0's decides. Until it is done, begin_step()
  /// waits for all ranks, and layers declare their memory anew after each change. Not for
  /// Policy::kBucketed.
  std::shared_ptr<Tuner> tuner = {};
};

/// What an exchange has measured on its rank. Times are of the clock of communication.
struct ExchangeStats {
  std::uint64_t steps = 0;              ///< backwards that have ended
  std::uint64_t pieces = 0;             ///< pieces exchanged
  std::uint64_t bytes = 0;              ///< in these pieces
  Duration time = Duration::zero();     ///< since the first begin_step()
  Duration exposed = Duration::zero();  ///< of time: in await() while no own gradient is computed
  Duration busy = Duration::zero();     ///< of time: with at least one piece under way
  Duration hidden = Duration::zero();   ///< of busy, outside await()
  std::string longest_awaited;          ///< the gradient that was waited for longest, in all
  Duration longest_wait = Duration::zero();  ///< how long
  /// A sentence with these figures, where exposed and the rest add up to 100 %.
  [[nodiscard]] std::string report() const;
};

/// One rank's side of the exchange of a list of gradients. The head of the file has the rules.
class GradientExchange {
 public:
  /// Collective: waits until all ranks have called it, and throws CommMismatch on all of them if
  /// their gradients (number, names, sizes, types) or options differ. `gradients` are in the order
  /// of the forward; all lie on one device, and their memory outlives the exchange. Throws
  /// std::invalid_argument for an option out of range, a size that is no multiple of its type, and
  /// a type that cannot be summed.
  GradientExchange(const Communicator& communicator, std::vector<Gradient> gradients,
                   ExchangeOptions options = {});
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;
  /// Leaves. If a backward has not ended, or a result has not come, every rank gets a CommMismatch.
  /// The gradients' memory is free when the destructor returns.
  ~GradientExchange();

  /// Collective: copies rank `root`'s tensors to all ranks, and waits. For parameters before the
  /// first step, and buffers such as running means. All tensors lie in one device's memory. Throws
  /// as await(), and CommMismatch on every rank if the ranks' lists differ.
  void broadcast(std::span<const Gradient> tensors, int root);

  /// Begins the next step, to which this rank contributes `samples`. With 0 this rank contributes
  /// nothing but gets the results. If all earlier results were awaited, its backward ends here.
  /// Throws std::logic_error if the backward of the step before has not ended,
  /// std::invalid_argument for more than 2^48 samples.
  void begin_step(std::uint64_t samples);
  /// Says that gradient `index` is complete once the work enqueued on `stream` so far has run.
  /// Returns at once. Throws std::logic_error if it is ready already, outside a backward, in a step
  /// without samples, and if its last result was not awaited.
  void ready(std::size_t index, const gpu::StreamRef& stream);
  /// As above, for a gradient that is complete now. Functions without a stream throw
  /// std::logic_error if there are layers, which need one.
  void ready(std::size_t index);
  /// Ends this rank's backward. A gradient that is not ready is empty here, and left out of the
  /// sum. Its result is written after the work enqueued so far on the stream of its last await().
  /// Throws std::logic_error outside a backward, and if a last result was not
  /// awaited.
  void end_backward();
  /// Suspends the caller (blocks a plain thread) until gradient `index` has its result, and makes
  /// `stream` wait for what is left to do on the device. With ExchangeOptions::synchronous it waits
  /// for all gradients that were given to it. Returns whether a result has come. Returns false, and
  /// leaves the memory as it was, if no rank has contributed or the gradient has no elements. Also
  /// returns false, at once, before the first step and if the result was awaited before.
  ///
  /// Throws std::logic_error in a backward if the gradient is not ready yet and has no earlier
  /// result to wait for. Also throws CommError, CommMismatch, Cancelled.
  bool await(std::size_t index, const gpu::StreamRef& stream);
  /// As above, for memory that the CPU reaches: no stream has to wait.
  bool await(std::size_t index);
  /// await() for every gradient, in the order of the constructor.
  void await_all(const gpu::StreamRef& stream);
  /// As above.
  void await_all();

  /// What the exchange has measured so far on this rank. Thread-safe.
  [[nodiscard]] ExchangeStats stats() const;
  /// The number of gradients.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  class Tuning;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Tuning> tuning_;  // if there is a tuner
};

}  // namespace leat::comm
