// A server's side of a ParameterServer: gradients from the workers, updates, weights to them.
//
// Always true:
//  - The pieces of a server are in its round, or one ahead.
//  - A worker that has left owes nothing more: what waits for it is told.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "leat/comm/exchange/credit_queue.h"
#include "leat/comm/server/endpoint.h"
#include "leat/comm/server/update.h"
#include "leat/comm/transports/reduce.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/bell.h"

namespace leat::comm {

class Server final : public Side {
 public:
  explicit Server(Endpoint& endpoint);

  /// Waits until all workers have left, or the world has failed.
  void await_end() {
    served_bell_.wait();
    served_bell_.ring();  // for a second call
  }
  /// What this side has measured. Thread-safe.
  [[nodiscard]] ServerStats stats() const;

  // ---- the fiber's

  void handle(const TrainerCall& call) override;
  void handle(const Notice& notice) override;
  void finish(PieceTransfer& transfer) override;
  void act() override;
  [[nodiscard]] TimePoint next_deadline() const override;
  void check_deadline(TimePoint now) override;
  void add_waits(const Wait& asked, bool is_awaited, Answer& answer) override;
  void world_failed() override { served_bell_.ring(); }
  void leave() override;

 private:
  struct OwnedPiece {
    std::uint32_t piece = 0;
    OwnedWeights weights;
    bool has_weights = false;   // the first worker has sent them
    std::uint64_t version = 0;  // updates; synchronous: steps
  };
  /// What a client has to do with an owned piece.
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
  struct Client {
    int rank = 0;
    CreditQueue pulls;          // to it
    std::uint64_t barrier = 0;  // the last step that it has ended
    std::uint64_t samples = 0;  // in it
    std::uint64_t awaited = 0;  // the last step that it waits for the end of, or did
    bool has_left = false;
    std::optional<int> blames;  // it has failed because of this rank of the world; -1: of none
  };

  [[nodiscard]] std::size_t client_of(int rank) const noexcept;
  [[nodiscard]] Wait wait_for(const Client& client) const {
    return {.rank = endpoint_.world_rank(client.rank)};
  }
  [[nodiscard]] Share& share(std::uint32_t owned, std::size_t client) {
    return shares_[owned * clients_.size() + client];
  }
  void receive(const Notice& notice);
  void received(PieceTransfer& transfer);
  void release(std::uint32_t owned, Share& from);
  [[nodiscard]] bool has_come(std::uint32_t owned, std::size_t client, std::uint64_t step);
  void try_round(std::uint32_t owned);
  void apply(OwnedPiece& one, const float* gradient);
  void end_piece_of_round(std::uint64_t step);
  void barrier(const Notice& notice);
  void wanted(const Notice& notice);
  [[nodiscard]] bool is_missing(std::uint32_t owned, std::size_t client, const Share& fetch);
  void offer(std::uint32_t owned, std::size_t client);
  void offer_all(std::uint32_t owned);
  void tell_missing(std::uint32_t owned, std::size_t client, const Client& missing);
  void tell_of_round();
  void left(std::size_t client, std::optional<int> blames);
  void check_end();
  [[nodiscard]] std::optional<Failure> failure_of_clients() const;

  Endpoint& endpoint_;
  World& world_;
  const ServerPlan& plan_;
  const ServerOptions& options_;
  Bell served_bell_{"comm serve", Bell::RungBy::kOutsiders};  // all workers have left
  mutable SpinLock stats_lock_;
  ServerStats stats_ LEAT_GUARDED_BY(stats_lock_);

  std::vector<OwnedPiece> owned_;
  std::vector<std::uint32_t> owned_of_;  // by piece
  std::vector<Client> clients_;
  std::vector<Share> shares_;
  std::vector<Notice> early_;  // pushes whose memory is not free yet
  std::vector<Input> inputs_;
  std::uint64_t round_ = 1;
  std::size_t left_of_round_ = 0, ahead_ = 0;  // owned pieces
  TimePoint heard_;                            // of any worker
  bool is_serving_ = false;
};

}  // namespace leat::comm
