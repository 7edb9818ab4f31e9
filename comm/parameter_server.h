// ParameterServer: ranks that own the parameters and update them, for ranks that compute gradients.
//
// Example (ranks 0 to 2 train, rank 3 serves)
//   comm::ParameterServer server(communicator, parameters,
//                                {.servers = {3}, .optimizer = comm::Sgd{0.1F}});
//   if (communicator.rank() == 3) return server.serve();  // until all workers have left
//
//   for (auto& batch : feed.epoch(0, stream)) {
//     server.begin_step(batch.size());
//     forward(batch, [&](int i) { if (fetched[i]) fetched[i]->await(); });  // layer i's weights
//     backward([&](int i) {                         // after the backward of layer i:
//       sent[i] = server.send_vars(i, stream);      // its gradient leaves,
//       fetched[i] = server.fetch_vars(i, stream);  // and its new weights are asked for
//     });
//     server.send_barrier().await();
//   }
//   server.fetch_barrier().await();
//
// Parameters are cut into pieces, which are dealt out so that the servers' bytes differ by at most
// one piece. A piece travels by itself: in its worker's push queue, or in the pull queue from its
// server to the worker. Each queue has the policy's order and a credit of its own.
//
// A step, with send_barrier() at the end if the servers are synchronous:
//
//   fetch(w1) → opA → fetch(w2) → opB → opB' → send(w2') → opA' → send(w1') → send_barrier()
//
// Synchronous: a server updates a piece once it has the gradients of all workers for it. It uses
// the mean over all samples of the step, added by rank (transports/reduce.h). A fetch of layer 1
// waits for the updates of layer 1 alone.
//
// Asynchronous: a server updates a piece with each gradient, when it comes. The staleness of a
// gradient counts the updates since its weights were fetched. With a bound s, a fetch after step k
// waits until all workers have sent step k - s. Nobody waits for gradients that a worker has not
// sent before its next step, or of a step without samples.
//
// Errors: std::logic_error or std::invalid_argument at once for a mistake of this rank alone;
// CommMismatch on every rank if parameters or options differ. If a worker or server is late beyond
// the deadline, stopped or dead, only the ranks that wait for it get a CommError, in the call that
// waits or the next one. On "local" all ranks of the process get it.
//
// Thread and fiber safety: one fiber or thread of the rank calls a ParameterServer; any may call
// stats(). Completions are for one fiber or thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace leat::comm {

class Endpoint;

/// Stochastic gradient descent: w -= rate * g.
struct Sgd {
  float rate = 0.01F;
};
/// v = momentum * v + g; w -= rate * v. As torch.optim.SGD without dampening.
struct Momentum {
  float rate = 0.01F;
  float momentum = 0.9F;
};
/// Kingma and Ba, ICLR'15, with the correction of the bias. As torch.optim.Adam.
struct Adam {
  float rate = 0.001F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
};
/// How a server updates its pieces.
using Optimizer = std::variant<Sgd, Momentum, Adam>;

/// A parameter, of float32. On a rank that is no worker the pointers are not used, only the sizes.
struct Parameter {
  std::string name;          ///< for errors and reports; not empty
  gpu::DeviceSpan weights;   ///< what is fetched
  gpu::DeviceSpan gradient;  ///< what is sent; of the same size
};

/// Options of a ParameterServer. All but device are equal on all ranks.
struct ServerOptions {
  /// The ranks that own pieces. Not empty, each once.
  std::vector<int> servers = {0};
  /// The ranks that train. Empty: all that are no servers; all ranks, if all are servers. A rank
  /// may be both.
  std::vector<int> workers = {};
  bool synchronous = true;
  /// Asynchronous only: the bound s, 0 or more. None: no fetch waits for other workers. 0 only with
  /// Sgd: every worker's gradient of a step then comes before the next step, and a momentum would
  /// take each as a step of its own.
  std::optional<int> staleness = {};
  Optimizer optimizer = Sgd{};
  /// The order of each queue: kFifo or kPriority.
  Policy policy = Policy::kPriority;
  /// The size of a piece in bytes, rounded down to whole elements, at least one; more than 0.
  std::size_t partition_bytes = std::size_t{4} << 20;
  /// Bytes in flight from a queue: the next piece starts if it fits, or if nothing is in flight.
  /// More than 0.
  std::size_t credit_bytes = std::size_t{16} << 20;
  /// The device whose memory holds a worker's parameters. None: memory that the CPU reaches.
  std::optional<gpu::Device> device = {};
};

/// What a ParameterServer has measured on its rank.
struct ServerStats {
  std::uint64_t pieces_sent = 0;     ///< by this worker, to servers
  std::uint64_t pieces_fetched = 0;  ///< by this worker, from servers
  std::uint64_t updates = 0;         ///< of this server's pieces
  std::uint64_t bytes_owned = 0;     ///< of this server's weights
  /// How often a gradient for this server's pieces came with a staleness of 0, 1, 2, …; the last
  /// entry counts all above. Synchronous: all are in the first.
  std::vector<std::uint64_t> staleness;
  /// A sentence with these figures.
  [[nodiscard]] std::string report() const;
};

/// One rank's side: of a worker, of a server, or of both. The head of the file has the rules.
class ParameterServer {
 public:
  /// Collective: waits until all ranks have called it, and each worker has the weights of the
  /// worker with the lowest rank. That worker's device must have written them before. Throws
  /// CommMismatch on all ranks if their parameters (number, names, sizes) or options differ.
  /// `parameters` are in the order of the forward. Throws std::invalid_argument for an option out
  /// of range, and for a parameter whose size is not a multiple of 4 bytes.
  ParameterServer(const Communicator& communicator, std::vector<Parameter> parameters,
                  ServerOptions options = {});
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;
  /// Leaves. If a server leaves while workers use it, they get a CommError: call serve() before.
  /// The parameters' memory is free when the destructor returns.
  ~ParameterServer();

  // ---- for workers. These throw std::logic_error on a rank that is no worker.

  /// Begins the next step, to which this worker contributes `samples`. Synchronous: throws
  /// std::logic_error if the step before had no send_barrier(), or a parameter was sent and not
  /// fetched since.
  void begin_step(std::uint64_t samples);
  /// Sends the gradients of these parameters, once the work that is enqueued on `stream` so far has
  /// run. Returns at once. The gradients' memory belongs to the ParameterServer until the
  /// completion has ended; the servers have the gradients then. Throws std::logic_error if a
  /// parameter was sent in this step already, or outside a step.
  Completion send_vars(std::span<const std::size_t> indices, const gpu::StreamRef& stream);
  /// As above, one parameter.
  Completion send_vars(std::size_t index, const gpu::StreamRef& stream);
  /// As above; the gradient is complete now.
  Completion send_vars(std::size_t index);
  /// Ends the sends of this step. A gradient that was not sent is empty on this worker: it is left
  /// out of the sum, but its samples count. The completion ends when the servers have all of this
  /// step. Throws std::logic_error if asynchronous, and outside a step.
  Completion send_barrier();
  /// Asks for the weights of these parameters, as they are after the gradients that this worker has
  /// sent for them. They are written once the work that is enqueued on `stream` so far has run.
  /// Returns at once. The completion ends when the weights are there, for every stream. Throws
  /// std::logic_error if a fetch of one of them is under way.
  Completion fetch_vars(std::span<const std::size_t> indices, const gpu::StreamRef& stream);
  /// As above, one parameter.
  Completion fetch_vars(std::size_t index, const gpu::StreamRef& stream);
  /// As above; the weights may be overwritten now.
  Completion fetch_vars(std::size_t index);
  /// Returns a completion that ends when all fetches called so far on this worker have.
  Completion fetch_barrier();

  // ---- for any rank

  /// Leaves, if this rank is a worker: it makes no more calls. If this rank is a server, waits
  /// until all workers have left. If nothing was heard of them for a deadline, it asks them all,
  /// and throws CommError if none of those that have not left answers within half a second; a
  /// worker answers whatever its trainer does. Also throws it, once all have left, if one of them
  /// has failed because a rank did not come.
  void serve();
  /// What was measured so far on this rank. Thread-safe.
  [[nodiscard]] ServerStats stats() const;
  /// The number of parameters.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  std::unique_ptr<Endpoint> endpoint_;
};

}  // namespace leat::comm
