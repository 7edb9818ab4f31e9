// The fiber of a rank's end: it waits for calls, notices and pieces.
#include <algorithm>
#include <exception>
#include <utility>

#include "leat/comm/server/party.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"

namespace leat::comm {

void Party::run() {
  const Shield shield;  // it ends by TrainerCall::kStop alone
  // An error of a device, say: all ranks are told, and the trainer.
  const auto guarded = [this](const auto& act) {
    try {
      act();
    } catch (const std::exception& error) {
      fail_by(world_, end_->world_rank(), error);
    }
  };
  while (!is_stopping_ || under_way_ > 0) {
    guarded([&] {
      const auto on_call = [&](std::optional<TrainerCall> call) { handle(*call); };
      const auto on_notice = [&](std::optional<Notice> notice) { handle(*notice); };
      const auto on_finished = [&](std::optional<Transfer*> one) { finish(**one); };
      const TimePoint due = world_.is_dead() ? TimePoint::max() : next_deadline();
      if (due == TimePoint::max()) {
        select(on_recv(calls_, on_call), on_recv(notices_, on_notice),
               on_recv(finished_, on_finished));
      } else {
        select(on_recv(calls_, on_call), on_recv(notices_, on_notice),
               on_recv(finished_, on_finished),
               on_timeout(due - world_.time(), [&] { check_deadlines(); }));
      }
      do {
        while (drain()) {
        }
        // What can travel at this instant is queued before a line chooses.
        if (world_.is_virtual()) {
          settle();
          while (drain()) {
          }
        }
        if (!world_.is_dead()) {
          if (works_) push_next();
          if (works_) pull_next();
          if (serves_) send_weights();
          if (works_) end_barriers();
          if (works_) tell_ended_step();
          if (works_) require_servers();
        }
        flush();
      } while (drain());  // pieces that ended within begin()
    });
    if (world_.is_dead()) {
      done_bell_.ring();
      served_bell_.ring();
    }
  }
  guarded([&] {
    if (world_.is_dead()) return;
    leave();
    for (const Worker& worker : workers_) {
      if (!worker.has_left && worker.rank != rank_) tell(worker.rank, {.kind = kGone});
    }
    flush();
  });
}

// Handles all that is there. Returns whether there was anything.
bool Party::drain() {
  bool any = false;
  for (std::optional<TrainerCall> call; calls_.try_recv(call) == ChannelStatus::ok; any = true) {
    handle(*call);
  }
  for (std::optional<Notice> notice; notices_.try_recv(notice) == ChannelStatus::ok; any = true) {
    handle(*notice);
  }
  for (std::optional<Transfer*> one; finished_.try_recv(one) == ChannelStatus::ok; any = true) {
    finish(**one);
  }
  return any;
}

void Party::handle(const TrainerCall& call) {
  switch (call.kind) {
    case TrainerCall::Kind::kOpen: open_call(call); break;
    case TrainerCall::Kind::kSend: send(call); break;
    case TrainerCall::Kind::kFetch: fetch(call); break;
    case TrainerCall::Kind::kStagedIn: begin_push(*transfers_[call.index]); break;
    case TrainerCall::Kind::kStagedOut: pulled(*transfers_[call.index]); break;
    case TrainerCall::Kind::kServe:
      is_serving_ = true;
      leave();
      check_served();
      break;
    case TrainerCall::Kind::kEndedStep: ended_step_ = call.step; break;
    case TrainerCall::Kind::kStop: is_stopping_ = true; break;
    default: break;
  }
}

void Party::handle(const Notice& notice) {
  if (world_.is_dead()) return;
  if (notice.kind <= kLeave) workers_[worker_of(notice.from)].heard = world_.time();
  switch (static_cast<NoticeKind>(notice.kind)) {
    case kPush: receive(notice); break;
    case kFetch: wanted(notice); break;
    case kBarrier: barrier(notice); break;
    case kAwait: {
      Worker& worker = workers_[worker_of(notice.from)];
      worker.awaited = notice.step;
      worker.awaited_since = world_.time();
      tell_of_round(/*only_left=*/true);
      break;
    }
    case kAlive: workers_[worker_of(notice.from)].asked.reset(); break;
    case kAsk: tell(notice.from, {.kind = kAlive}); break;
    case kAskServer: tell(notice.from, {.kind = kServing}); break;
    case kServing: peer_of(notice.from).questioned.reset(); break;
    case kLeave: worker_left(notice); break;
    case kGone: server_left(notice.from); break;
    case kPull:
      --peer_of(notice.from).asked;
      pulls_.push_back(notice);
      break;
    case kDone: done(notice); break;
    case kLate: {
      const int missing = static_cast<int>(notice.value);
      const bool has_left = notice.piece != 0;
      fail(has_left, missing, notice.tensor,
           "rank " + std::to_string(missing) +
               (has_left ? " has left, and this rank waits for its gradient"
                         : " has sent no gradient by the deadline: it is late, stopped or dead"));
      break;
    }
  }
}

void Party::tell(int rank, const Notice& notice) { outgoing_.push_back({rank, notice}); }

// Those to one rank share a message as far as they follow one another.
void Party::flush() {
  for (std::size_t i = 0; i < outgoing_.size();) {
    const int to = outgoing_[i].to;
    batch_.clear();
    for (; i < outgoing_.size() && outgoing_[i].to == to; ++i) {
      batch_.push_back(outgoing_[i].notice);
    }
    end_->post(to, batch_);
  }
  outgoing_.clear();
}

// Only this rank's world: who does not wait goes on. But all wait for a server sooner or later.
void Party::fail(bool is_mismatch, int peer, std::uint32_t tensor, const std::string& what) {
  leave(peer);
  flush();
  const std::string& name = plan_.parameters[tensor].name;
  world_.fail({.is_mismatch = is_mismatch,
               .peer = peer,
               .operation = "ParameterServer",
               .tensor = name,
               .what = "\"" + name + "\": " + what},
              /*tell=*/serves_);
}

// ---- pieces

Party::Transfer& Party::take_transfer(Transfer::Kind kind, std::uint32_t piece, int peer) {
  if (free_ == nullptr) {
    transfers_.push_back(std::make_unique<Transfer>());
    transfers_.back()->party = this;
    transfers_.back()->index = static_cast<std::uint32_t>(transfers_.size() - 1);
    free_ = transfers_.back().get();
    free_->next = nullptr;
  }
  Transfer& transfer = *std::exchange(free_, free_->next);
  transfer.kind = kind;
  transfer.piece = piece;
  transfer.peer = peer;
  transfer.buffer = nullptr;
  ++under_way_;
  return transfer;
}

void Party::recycle(Transfer& transfer) {
  if (transfer.slot != nullptr) staging_->give(std::exchange(transfer.slot, nullptr));
  transfer.next = free_;
  free_ = &transfer;
  --under_way_;
}

// Begins its send or receive. Both sides give the piece the same key.
void Party::begin(Transfer& transfer, void* memory) {
  const bool sends =
      transfer.kind == Transfer::Kind::kPush || transfer.kind == Transfer::Kind::kWeights;
  const bool is_push =
      transfer.kind == Transfer::Kind::kPush || transfer.kind == Transfer::Kind::kGradient;
  const ServerPlan::Piece& piece = plan_.pieces[transfer.piece];
  transfer.operation = {
      .signature = {.kind = sends ? OperationKind::kSend : OperationKind::kRecv,
                    .dtype = DType::kFloat32,
                    .count = piece.bytes / sizeof(float),
                    .number = (std::uint64_t{transfer.piece} << 1) | (is_push ? 0U : 1U)},
      .peer = transfer.peer,
      .label = plan_.parameters[piece.tensor].name.c_str(),
      .in = sends ? memory : nullptr,
      .out = sends ? nullptr : memory,
      .finished = &Party::finished,
      .owner = &transfer,
      .is_patient = true};
  end_->begin(transfer.operation);
}

// On any thread or fiber.
void Party::finished(Operation& operation, const Failure* /*failure*/) noexcept {
  auto& transfer = *static_cast<Transfer*>(operation.owner);
  const Channel<Transfer*> finished =
      transfer.party->finished_;                    // outlives the party, which may end
  static_cast<void>(finished.try_send(&transfer));  // there is room
}

void Party::finish(Transfer& transfer) {
  switch (transfer.kind) {
    case Transfer::Kind::kPush: pushed(transfer); break;
    case Transfer::Kind::kPull: copy_out(transfer); break;
    case Transfer::Kind::kGradient: received(transfer); break;
    case Transfer::Kind::kWeights: weights_sent(transfer); break;
  }
}

// ---- who is late

TimePoint Party::next_deadline() {
  const Duration deadline = world_.options().deadline;
  TimePoint due = TimePoint::max();
  // A server knows who is missing, and tells in time.
  for (const OpenCall& one : open_) {
    if (one.unready > 0) continue;
    const TimePoint late = Deadline::after(one.since, deadline).at();
    if (!world_.is_virtual()) {
      if (!one.has_asked) due = std::min(due, Deadline::after(one.since, deadline / 2).at());
      if (late > world_.time()) due = std::min(due, late);
    }
    due = std::min(due, Deadline::after(late, kGrace).at());
  }
  return serves_ ? std::min(due, next_deadline_of_server()) : due;
}

void Party::check_deadlines() {
  const TimePoint now = world_.time();
  const Duration deadline = world_.options().deadline;
  if (serves_) check_workers(now);
  for (OpenCall& one : open_) {
    if (one.unready > 0) continue;
    if (!one.has_asked && Deadline::after(one.since, deadline / 2).at() <= now) ask_servers(one);
    const TimePoint late = Deadline::after(one.since, deadline).at();
    if (late <= now && fail_if_silent(now)) return;
    if (Deadline::after(late, kGrace).at() <= now) return fail_late(one);
  }
}

// Whether a rank has not answered for long enough. In virtual time nobody is asked: there all ranks
// are in this process, and time would never stand still.
bool Party::is_silent(const std::optional<TimePoint>& asked, TimePoint now) const {
  return asked.has_value() && Deadline::after(*asked, world_.options().deadline / 4).at() <= now;
}

}  // namespace leat::comm
