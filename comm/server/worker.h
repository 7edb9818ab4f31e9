// A worker's side of a ParameterServer: gradients to the servers, weights from them.
//
// Always true:
//  - Of each piece, a worker has at most one push and one pull under way.
//  - A worker's barriers are one at a time: the next is told once all servers have done the last
//    one's round.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "leat/comm/exchange/calls.h"
#include "leat/comm/exchange/credit_queue.h"
#include "leat/comm/exchange/staging.h"
#include "leat/comm/server/endpoint.h"
#include "leat/comm/server/trainer.h"

namespace leat::comm {

class Worker final : public Side {
 public:
  explicit Worker(Endpoint& endpoint);

  /// What the trainer calls.
  [[nodiscard]] Trainer& trainer() noexcept { return trainer_; }
  /// Adds what this side has measured. Thread-safe.
  void add_to(ServerStats& stats) const noexcept;

  // ---- the fiber's

  void handle(const TrainerCall& call) override;
  void handle(const Notice& notice) override;
  void finish(PieceTransfer& transfer) override;
  void act() override;
  [[nodiscard]] TimePoint next_deadline() const override;
  void check_deadline(TimePoint now) override;
  void add_waits(const Wait& asked, bool is_awaited, Answer& answer) override;
  void world_failed() override { trainer_.wake(); }
  void leave() override;

 private:
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
  struct Variable {  // a parameter
    Operation* send = nullptr;
    Operation* fetch = nullptr;
    std::uint64_t step = 0;
    std::uint64_t samples = 0;
    std::uint32_t to_send = 0;   // pieces
    std::uint32_t to_fetch = 0;  // pieces
  };
  struct Owner {  // a server that owns pieces
    int rank = 0;
    std::uint64_t done = 0;   // the last step
    std::uint32_t asked = 0;  // pieces that were fetched, and are not announced
    bool is_gone = false;
  };

  [[nodiscard]] OpenCall& ready(const TrainerCall& call);
  [[nodiscard]] OpenCall& call_of(const Operation* operation);
  [[nodiscard]] Owner& owner_of(int rank) noexcept;
  void advance(OpenCall& call, std::uint32_t pieces);
  void end_barriers();
  void tell_ended_step();
  [[nodiscard]] std::uint64_t done_so_far() const noexcept;
  void send(const TrainerCall& call);
  [[nodiscard]] std::byte* memory_of(std::uint32_t piece, bool of_weights) const;
  void push_next();
  [[nodiscard]] bool copy(Staging::Way way, PieceTransfer& transfer);
  void begin_push(PieceTransfer& transfer);
  void fetch(const TrainerCall& call);
  void pull_next();
  void ended(PieceTransfer& transfer);
  void require_owners();
  [[nodiscard]] std::vector<Wait> awaited_owners() const;

  Endpoint& endpoint_;
  World& world_;
  const ServerPlan& plan_;
  Trainer trainer_;
  std::atomic<std::uint64_t> pieces_sent_{0}, pieces_fetched_{0};

  std::uint64_t ended_step_ = 0, told_step_ = 0;  // with a bound of staleness
  std::vector<OpenCall> open_;                    // in the order of the calls
  std::vector<Variable> variables_;
  std::vector<Owner> owners_;
  CreditQueue pushes_;
  std::vector<Notice> pulls_;  // announced, and not begun
  std::optional<Staging> staging_;
  bool has_left_ = false;
  bool has_accused_ = false;

  std::optional<StreamCalls> staging_events_;
};

}  // namespace leat::comm
