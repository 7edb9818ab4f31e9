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
// Parameters are cut into pieces, which are dealt out to the servers: their bytes differ by at most
// one piece. A piece travels by itself, on the push line of its worker and on the pull line from
// its server to that worker, in the order of the policy and under the credit of each line.
//
// A step, with send_barrier() at the end if the servers are synchronous:
//
//   fetch(w1) → opA → fetch(w2) → opB → opB' → send(w2') → opA' → send(w1') → send_barrier()
//
// Synchronous: a piece is updated once the gradients of all workers for it are there, with the mean
// over all samples of the step, added by rank (transports/reduce.h); then it is fetched. So a fetch
// of layer 1 waits for layer 1 alone.
//
// Asynchronous: each gradient is a step of its own, taken when it comes. Its staleness is the
// number of updates between the fetch of the weights that it was computed with and its own. With a
// bound s, a fetch after step k waits until all workers have sent step k - s. What a worker has not
// sent when it begins the next step does not come; of a step without samples nothing does.
//
// Errors: std::logic_error or std::invalid_argument at once for what this rank alone did wrong;
// CommMismatch on every rank if parameters or options differ. A worker or server that is late
// beyond the deadline, stopped or dead is a CommError on those alone that wait for it, in their
// next call or the one that waits; in one process (local) that is all of its ranks.
//
// Thread and fiber safety: one fiber or thread of the rank calls it, except stats(), which any may.
// Completions are for one fiber or thread at a time.
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

class Party;

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

/// Options of a ParameterServer. Equal on all ranks, but for device.
struct ServerOptions {
  /// The ranks that own pieces. Not empty, each once.
  std::vector<int> servers = {0};
  /// The ranks that train. Empty: all that are no servers, or all, if all are. A rank may be both.
  std::vector<int> workers = {};
  bool synchronous = true;
  /// Asynchronous only: the bound s, 0 or more. None: no fetch waits for other workers. 0 only with
  /// Sgd: with it every worker's gradient of a step comes before the next, and would be a step of
  /// its own to a momentum.
  std::optional<int> staleness = {};
  Optimizer optimizer = Sgd{};
  /// kFifo or kPriority, of each line.
  Policy policy = Policy::kPriority;
  /// The size of a piece in bytes, rounded down to whole elements, at least one; more than 0.
  std::size_t partition_bytes = std::size_t{4} << 20;
  /// Bytes in flight on a line: the next piece starts if it fits, or if nothing is in flight. More
  /// than 0.
  std::size_t credit_bytes = std::size_t{16} << 20;
  /// The device in whose memory a worker's parameters lie. None: the CPU reaches them.
  std::optional<gpu::Device> device = {};
};

/// What a ParameterServer has measured on its rank.
struct ServerStats {
  std::uint64_t pieces_sent = 0;     ///< by this worker, to servers
  std::uint64_t pieces_fetched = 0;  ///< by this worker, from servers
  std::uint64_t updates = 0;         ///< of this server's pieces
  std::uint64_t bytes_owned = 0;     ///< by this server, of weights
  /// How often a gradient came with a staleness of 0, 1, 2, …; the last counts all that is more.
  /// Of this server's pieces. Synchronous: all in the first.
  std::vector<std::uint64_t> staleness;
  /// A sentence with these figures.
  [[nodiscard]] std::string report() const;
};

/// A rank's end: of a worker, of a server, or of both. The head of the file has the rules.
class ParameterServer {
 public:
  /// Collective: waits until all ranks have called it, and until each worker has the weights of the
  /// worker of the lowest rank, which its device has written by then. Throws CommMismatch on all of
  /// them if their parameters (number, names, sizes) or options differ. `parameters` are in the
  /// order of the forward. Throws std::invalid_argument for an option out of range, and for
  /// parameters that are no whole float32.
  ParameterServer(const Communicator& communicator, std::vector<Parameter> parameters,
                  ServerOptions options = {});
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;
  /// Leaves. A server that leaves while workers use it is a CommError for them: call serve()
  /// before. The parameters' memory is free when it returns.
  ~ParameterServer();

  // ---- a worker's. Throw std::logic_error on a rank that is none.

  /// Begins the next step, to which this worker contributes `samples`. Throws std::logic_error if
  /// it is synchronous and the step before has not got its send_barrier(), or a tensor that was
  /// sent in it was not fetched since.
  void begin_step(std::uint64_t samples);
  /// Sends the gradients of these parameters, once the work that is enqueued on `stream` so far has
  /// run. Returns at once. The gradients' memory is the sender's until the completion has ended:
  /// then the servers have them. Each parameter at most once in a step. Throws std::logic_error if
  /// it was sent already, or outside a step.
  Completion send_vars(std::span<const std::size_t> indices, const gpu::StreamRef& stream);
  /// As above, one parameter.
  Completion send_vars(std::size_t index, const gpu::StreamRef& stream);
  /// As above; the gradient is complete now.
  Completion send_vars(std::size_t index);
  /// Ends the sends of this step: what was not sent is empty on this worker, and left out of the
  /// sum, not of the samples. Its completion ends when the servers have all of this step.
  /// Synchronous only; throws std::logic_error else, and outside a step.
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
  /// Its completion ends when all fetches of this worker have ended that were asked for so far.
  Completion fetch_barrier();

  // ---- of any rank

  /// This rank's worker, if it is one, leaves: it makes no more calls. If this rank serves, waits
  /// until all workers have left. A worker that is silent for half of the deadline is asked whether
  /// it lives, and answers, whatever its trainer does. Throws CommError if none of those that have
  /// not left has answered by the deadline, and, once all have left, if one of them has because a
  /// rank did not come.
  void serve();
  /// What was measured so far on this rank. Thread-safe.
  [[nodiscard]] ServerStats stats() const;
  /// The number of parameters.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  std::unique_ptr<Party> party_;
};

}  // namespace leat::comm
