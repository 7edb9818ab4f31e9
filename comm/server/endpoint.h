// A rank's end of a ParameterServer: the fiber that its sides run on, and what they share.
//
//   worker ──call──► fiber ──kPush, gradient──► fiber of the server: sums, updates
//      ▲               │ ▲                         │
//      └──completion───┘ └──────kPull, weights─────┘   asked for by kFetch
//
// File       | holds
// endpoint.h | the fiber's loop, notices, pieces under way
// trainer.h  | what a worker's trainer calls
// worker.h   | a worker's side: gradients to the servers, weights from them
// server.h   | a server's side: gradients from the workers, updates, weights to them
//
// The sender of a piece announces it with a notice, and only then the other side begins the
// receive. So nothing is received that nobody sends, and a rank that ends leaves no receive behind.
//
// Always true: but for the constructor, the destructor and what says otherwise, the fiber alone
// uses the endpoint and its sides. The fiber runs until TrainerCall::kStop, also after a failure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/exchange/calls.h"
#include "leat/comm/exchange/credit_queue.h"
#include "leat/comm/parameter_server.h"
#include "leat/comm/server/server_plan.h"
#include "leat/csp/bell.h"
#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"

namespace leat::comm {

class Endpoint;
class Server;
class Side;
class Trainer;
class Worker;

/// Notice::kind between the ends of a ParameterServer.
enum ServerNotice : std::uint32_t {
  // To a server:
  kPush,     // the gradient of `piece` for `step` comes; value: samples
  kFetch,    // send the pieces of `tensor`, as they are after `step`
  kBarrier,  // no more gradients up to `step` come; value: samples
  kAwait,    // the sender waits for kDone of `step`
  kLeave,    // the worker's end is gone
  // To a worker:
  kPull,     // the weights of `piece` come
  kDone,     // all pieces of `step` are updated
  kMissing,  // `tensor` does not come: the rank `value` has left, or (piece: 1) others have failed
             // because of that rank
  kGone,     // the server's end is gone
};

/// A piece under way, on this rank's side. Reused.
struct PieceTransfer {
  Endpoint* endpoint = nullptr;
  std::uint32_t index = 0;  ///< among the endpoint's
  Side* side = nullptr;
  bool is_push = false;
  std::uint32_t piece = 0;
  int peer = 0;
  std::byte* slot = nullptr;  ///< a worker's, if it is staged
  void* buffer = nullptr;     ///< a server's
  Operation operation;
  PieceTransfer* next = nullptr;  ///< unused ones
};

/// A side of an endpoint.
class Side {
 public:
  Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  virtual ~Side() = default;

  /// Handles what the trainer calls, a notice for this side, a piece that has come or gone.
  virtual void handle(const TrainerCall& call) = 0;
  virtual void handle(const Notice& notice) = 0;
  virtual void finish(PieceTransfer& transfer) = 0;
  /// Begins all that can begin now.
  virtual void act() = 0;
  /// When check_deadline() is called next, unless act() changes that.
  [[nodiscard]] virtual TimePoint next_deadline() const = 0;
  virtual void check_deadline(TimePoint now) = 0;
  /// As World::answer().
  virtual void add_waits(const Wait& asked, bool is_awaited, Answer& answer) = 0;
  /// The world has failed: wakes the trainer.
  virtual void world_failed() = 0;
  /// Tells the others that this side is gone.
  virtual void leave() = 0;
};

/// What ParameterServer owns.
class Endpoint {
 public:
  Endpoint(const Communicator& communicator, std::vector<Parameter> parameters,
           ServerOptions options);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint();

  // ---- the trainer's; see ParameterServer

  /// Throws std::logic_error if this rank is no worker, or has left.
  [[nodiscard]] Trainer& trainer(const char* call);
  void serve();
  [[nodiscard]] ServerStats stats() const;
  void require_alive() const { world_.require_alive(end_->world_rank()); }
  [[nodiscard]] std::size_t size() const noexcept { return plan_.parameters.size(); }

  // ---- for the sides. What is const is for any thread.

  [[nodiscard]] const ServerOptions& options() const noexcept { return options_; }
  [[nodiscard]] const ServerPlan& plan() const noexcept { return plan_; }
  [[nodiscard]] World& world() const noexcept { return world_; }
  [[nodiscard]] const std::shared_ptr<Transport>& transport() const noexcept { return end_; }
  [[nodiscard]] int rank() const noexcept { return end_->rank(); }
  /// A rank of this communicator, as open() counts; and the other way round.
  [[nodiscard]] int world_rank(int rank) const noexcept {
    return world_ranks_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] int rank_of(int world_rank) const noexcept;
  [[nodiscard]] const Channel<TrainerCall>& calls() const noexcept { return calls_; }
  /// Sends a notice, with others, before the fiber waits.
  void tell(int rank, const Notice& notice) { outgoing_.push_back({rank, notice}); }
  /// As which a piece is queued that can travel from now on.
  [[nodiscard]] CreditQueue::Entry entry_of(std::uint32_t piece) const;
  [[nodiscard]] PieceTransfer& take(Side& side, bool is_push, std::uint32_t piece, int peer);
  [[nodiscard]] PieceTransfer& transfer(std::uint32_t index) noexcept { return *transfers_[index]; }
  /// Begins the transfer's send or receive. Side::finish() comes, whatever happens.
  void begin(PieceTransfer& transfer, void* memory);
  void recycle(PieceTransfer& transfer);
  /// A failure of that parameter; nobody is blamed yet.
  [[nodiscard]] Failure failure_of(std::uint32_t tensor, const std::string& what) const;
  /// Fails only this rank's world, unless it serves: ranks that do not wait go on, but all wait for
  /// a server sooner or later. `peer`: as open() counts.
  void fail(std::uint32_t tensor, int peer, bool is_mismatch, const std::string& what) noexcept;
  /// As World::accuse(), in the same way.
  void accuse(Failure failure, std::vector<Wait> missing) {
    world_.accuse({std::move(failure), std::move(missing), server_ != nullptr});
  }

 private:
  struct Outgoing {
    int to = 0;
    Notice notice;
  };

  void start();
  void end() noexcept;
  void run();
  bool drain();
  void handle(const TrainerCall& call);
  void handle(const Notice& notice);
  void flush();
  static void finished(Operation& operation, const Failure* failure) noexcept;

  const ServerOptions options_;
  const ServerPlan plan_;
  Communicator control_;
  const std::shared_ptr<Transport> end_;
  World& world_;
  std::vector<int> world_ranks_;  // by rank
  const Channel<TrainerCall> calls_;
  const Channel<Notice> notices_;
  const Channel<PieceTransfer*> finished_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Server> server_;
  std::vector<Side*> sides_;
  bool trainer_has_left_ = false;  // the trainer's

  std::vector<std::unique_ptr<PieceTransfer>> transfers_;
  PieceTransfer* unused_ = nullptr;
  std::uint64_t under_way_ = 0;
  std::vector<Outgoing> outgoing_;
  std::vector<Notice> batch_;
  bool is_stopping_ = false;
  std::optional<TaskGroup> fiber_;
};

}  // namespace leat::comm
