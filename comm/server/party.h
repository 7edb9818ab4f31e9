// A rank's end of a ParameterServer: the trainer's calls, and a fiber on the scheduler of
// communication that sends, receives and updates.
//
//   worker ──call──► fiber ──kPush, gradient──► fiber of the server: sums, updates
//      ▲               │ ▲                         │
//      └──completion───┘ └──────kPull, weights─────┘   asked for by kFetch
//
// The sender of a piece announces it with a notice, and only then the other side begins the
// receive. So nothing is received that nobody sends, and a rank that ends leaves no receive behind.
//
// Always true:
//  - Members that begin with trainer_ are the trainer's. All others are the fiber's, except calls_,
//    the channels and atomics.
//  - Of each piece, a worker has at most one push and one pull under way.
//  - Weights that are being sent do not change: an update then writes to another buffer.
//  - The pieces of a server are in its round, or one ahead. A worker's barriers are one at a time:
//    the next is told once all servers have done the round of the last.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/completion.h"
#include "leat/comm/exchange/calls.h"
#include "leat/comm/exchange/staging.h"
#include "leat/comm/parameter_server.h"
#include "leat/comm/server/line.h"
#include "leat/comm/server/server_plan.h"
#include "leat/comm/transports/reduce.h"
#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"
#include "leat/csp/wait/bell.h"
#include "leat/csp/wait/spin_lock.h"
#include "leat/gpu/backend/pool.h"

namespace leat::comm {

class Party {
 public:
  Party(const Communicator& communicator, std::vector<Parameter> parameters, ServerOptions options);
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;
  ~Party();

  // The trainer's calls: party.cpp. See ParameterServer. Without a stream: null.
  void begin_step(std::uint64_t samples);
  [[nodiscard]] Completion send_vars(std::span<const std::size_t> indices,
                                     const gpu::StreamRef* stream);
  [[nodiscard]] Completion send_barrier();
  [[nodiscard]] Completion fetch_vars(std::span<const std::size_t> indices,
                                      const gpu::StreamRef* stream);
  [[nodiscard]] Completion fetch_barrier();
  void serve();
  [[nodiscard]] ServerStats stats() const;
  [[nodiscard]] std::size_t size() const noexcept { return plan_.parameters.size(); }

 private:
  enum NoticeKind : std::uint32_t {
    // To a server:
    kPush,     // the gradient of `piece` for `step` comes; value: samples
    kFetch,    // send the pieces of `tensor`, as they are after `step`
    kBarrier,  // no more gradients up to `step` come; value: samples
    kAwait,    // the sender waits for kDone of `step`
    kLeave,    // the worker's end is gone
    // To a worker:
    kPull,     // the weights of `piece` come
    kDone,     // all pieces of `step` are updated
    kMissing,  // `tensor` does not come: the rank `value` has left, or (piece: 1) has failed
               // because
               // of that rank
    kGone,     // the server's end is gone
  };
  /// A buffer of weights.
  struct Buffer {
    std::vector<float> values;
    int readers = 0;  // sends under way
  };
  /// A piece under way, on this rank's side. Reused.
  struct Transfer {
    enum class Kind : std::uint8_t { kPush, kPull, kGradient, kWeights };
    Party* party = nullptr;
    std::uint32_t index = 0;  // in transfers_
    Kind kind = Kind::kPush;
    std::uint32_t piece = 0;
    int peer = 0;
    std::byte* slot = nullptr;
    Buffer* buffer = nullptr;
    Operation operation;
    Transfer* next = nullptr;  // in free_
  };
  /// A completion that the trainer has.
  struct OpenCall {
    TrainerCall::Kind kind = TrainerCall::Kind::kSend;
    Operation* operation = nullptr;
    std::uint32_t unready = 0;  // parameters for which the device computes still
    std::uint32_t left = 0;     // pieces
    std::uint32_t unbegun = 0;  // pieces; of a send
    TimePoint since;            // when something of it moved on
    std::uint64_t step = 0;     // a barrier's
    std::uint64_t samples = 0;  // a barrier's
    bool is_told = false;       // a barrier's: the servers know of it
    bool is_asked = false;      // a barrier's: the servers know that it waits for the step before
  };
  /// A parameter on a worker.
  struct WorkerParameter {
    Operation* send = nullptr;
    Operation* fetch = nullptr;
    std::uint64_t step = 0;
    std::uint64_t samples = 0;
    std::uint32_t to_send = 0;   // pieces
    std::uint32_t to_fetch = 0;  // pieces
  };
  /// A piece on its server.
  struct ServerPiece {
    std::uint32_t piece = 0;
    std::vector<std::unique_ptr<Buffer>> buffers;
    Buffer* weights = nullptr;  // null until the first worker has sent them
    std::vector<float> state;
    std::uint64_t version = 0;  // updates; synchronous: steps
    std::uint64_t updates = 0;
  };
  /// What a worker has to do with a piece on its server.
  struct Share {
    std::vector<float> gradient;
    bool is_busy = false;    // the gradient is being received, or waits for the others
    bool is_here = false;    // it waits for the others
    bool is_wanted = false;  // a fetch waits
    std::uint64_t step = 0;  // of the gradient
    std::uint64_t samples = 0;
    std::uint64_t sent = 0;  // the last step whose gradient is in the weights
    std::uint64_t wanted_step = 0;
    std::uint64_t fetched_version = 0;
  };
  /// A worker, as a server sees it.
  struct Worker {
    int rank = 0;
    Line line;                  // to it
    std::uint64_t barrier = 0;  // the last step that it has ended
    std::uint64_t samples = 0;  // in it
    std::uint64_t awaited = 0;  // the last step that it waits for the end of, or did
    bool has_left = false;
    int blames = -1;  // it has failed because of this rank of the world
  };

  // ---- the trainer's side: party.cpp

  void start();
  void end() noexcept;
  void load_weights();
  void require_alive() const { world_.require_alive(end_->world_rank()); }
  void require_worker(const char* call) const;
  void require_free(const char* call, std::span<const std::size_t> indices,
                    const std::atomic<bool>* busy) const;
  [[nodiscard]] Completion open(TrainerCall::Kind kind, std::span<const std::size_t> indices,
                                const gpu::StreamRef* stream);

  // ---- the fiber's side: fiber.cpp

  void run();
  bool drain();
  void handle(const TrainerCall& call);
  void handle(const Notice& notice);
  void tell(int rank, const Notice& notice);
  void flush();
  [[nodiscard]] TimePoint next_deadline();
  void check_deadlines();
  [[nodiscard]] Transfer& take_transfer(Transfer::Kind kind, std::uint32_t piece, int peer);
  void recycle(Transfer& transfer);
  void begin(Transfer& transfer, void* memory);
  static void finished(Operation& operation, const Failure* failure) noexcept;
  void finish(Transfer& transfer);
  void fail_left(int rank, std::uint32_t tensor, const std::string& what);
  [[nodiscard]] Failure failure_of(std::uint32_t tensor, const std::string& what) const;
  [[nodiscard]] Answer waits_for(const Wait& asked, bool is_awaited);

  // ---- a worker's: worker.cpp

  void open_call(const TrainerCall& call);
  [[nodiscard]] OpenCall& ready(const TrainerCall& call);
  [[nodiscard]] OpenCall& call_of(const Operation* operation);
  void advance(OpenCall& call, std::uint32_t pieces);
  void end_barriers();
  void tell_ended_step();
  [[nodiscard]] std::uint64_t done_so_far() const noexcept;
  void done(const Notice& notice);
  void send(const TrainerCall& call);
  [[nodiscard]] std::byte* memory_of(std::uint32_t piece, bool of_weights) const;
  void push_next();
  [[nodiscard]] bool copy(Staging::Way way, Transfer& transfer);
  void begin_push(Transfer& transfer);
  void pushed(Transfer& transfer);
  void fetch(const TrainerCall& call);
  void pull_next();
  void copy_out(Transfer& transfer);
  void pulled(Transfer& transfer);
  void leave();
  void server_left(int server);
  void require_servers();
  void accuse_servers(const OpenCall& call);
  [[nodiscard]] std::vector<Wait> awaited_servers() const;

  // ---- a server's: owner.cpp

  void make_owned();
  [[nodiscard]] std::size_t worker_of(int rank) const noexcept;
  [[nodiscard]] Share& share(std::uint32_t owned, std::size_t worker) {
    return shares_[owned * workers_.size() + worker];
  }
  void receive(const Notice& notice);
  void received(Transfer& transfer);
  void release(std::uint32_t owned, Share& from);
  [[nodiscard]] bool has_come(std::uint32_t owned, std::size_t worker, std::uint64_t step);
  void try_round(std::uint32_t owned);
  void apply(ServerPiece& one, const float* gradient);
  void end_piece_of_round(std::uint64_t step);
  void barrier(const Notice& notice);
  void wanted(const Notice& notice);
  [[nodiscard]] bool is_missing(std::uint32_t owned, std::size_t worker, const Share& fetch);
  void offer(std::uint32_t owned, std::size_t worker);
  void offer_all(std::uint32_t owned);
  void send_weights();
  void weights_sent(Transfer& transfer);

  // ---- a server's: lateness.cpp

  void tell_missing(std::uint32_t owned, std::size_t worker, std::size_t missing);
  void tell_of_round();
  void worker_left(std::size_t worker, int blames);
  void check_served();
  [[nodiscard]] std::optional<Failure> failure_of_served() const;
  [[nodiscard]] TimePoint probe_at() const;
  void probe_workers();
  [[nodiscard]] Wait wait_for(std::size_t worker) const;
  void add_missing(std::size_t worker, Answer& answer);

  const ServerOptions options_;
  const ServerPlan plan_;
  Communicator control_;
  std::shared_ptr<Transport> end_;
  World& world_;
  const int rank_;
  const bool works_;
  const bool serves_;
  std::vector<int> world_ranks_;  // by rank
  const std::shared_ptr<gpu::Pool<CompletionState>> completions_ =
      std::make_shared<gpu::Pool<CompletionState>>();

  const Channel<TrainerCall> calls_;
  const Channel<Notice> notices_;
  const Channel<Transfer*> finished_;
  Bell done_bell_{"comm round", Bell::RungBy::kOutsiders};    // done_ has changed
  Bell served_bell_{"comm serve", Bell::RungBy::kOutsiders};  // all workers have left
  std::atomic<std::uint64_t> done_{0};      // the last step that all servers have done
  std::atomic<bool> trainer_waits_{false};  // in begin_step(), for done_
  std::unique_ptr<std::atomic<bool>[]> sending_, fetching_;  // by parameter
  mutable SpinLock stats_lock_;
  ServerStats stats_ LEAT_GUARDED_BY(stats_lock_);

  std::uint64_t trainer_step_ = 0;
  std::uint64_t trainer_calls_ = 0;
  std::uint64_t trainer_samples_ = 0;
  bool trainer_in_step_ = false;
  bool trainer_has_left_ = false;
  std::vector<std::uint64_t> trainer_sent_;     // the last step, by parameter
  std::vector<std::uint64_t> trainer_fetched_;  // the step of the last fetch, by parameter

  bool has_left_ = false;
  std::uint64_t ended_step_ = 0, told_step_ = 0;  // with a bound of staleness
  std::vector<OpenCall> open_;                    // in the order of the calls
  std::vector<WorkerParameter> mine_;
  std::optional<Line> pushes_;
  std::vector<Notice> pulls_;  // announced, and not begun
  /// A server that owns pieces, as a worker sees it.
  struct Peer {
    int rank = 0;
    std::uint64_t done = 0;   // the last step
    std::uint32_t asked = 0;  // pieces that were fetched, and are not announced
    bool is_gone = false;
  };
  [[nodiscard]] Peer& peer_of(int rank) noexcept;
  std::vector<Peer> peers_;

  std::vector<ServerPiece> owned_;
  std::vector<std::uint32_t> owned_of_;  // by piece
  std::vector<Worker> workers_;
  std::vector<Share> shares_;
  std::vector<Notice> early_;  // pushes whose memory is not free yet
  TimePoint heard_;            // of any worker
  bool is_serving_ = false;
  std::vector<Input> inputs_;
  std::uint64_t round_ = 1;
  std::size_t left_of_round_ = 0, ahead_ = 0;  // owned pieces

  std::vector<std::unique_ptr<Transfer>> transfers_;
  Transfer* free_ = nullptr;
  std::uint64_t under_way_ = 0;
  struct Outgoing {
    int to = 0;
    Notice notice;
  };
  std::vector<Outgoing> outgoing_;
  std::vector<Notice> batch_;
  std::optional<Staging> staging_;
  bool is_stopping_ = false;
  bool has_accused_ = false;

  std::optional<StreamCalls> trainer_events_;
  std::optional<StreamCalls> staging_events_;
  std::optional<TaskGroup> fiber_;
};

}  // namespace leat::comm
