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
  if (notice.kind <= kLeave) heard_ = world_.time();
  switch (static_cast<NoticeKind>(notice.kind)) {
    case kPush: receive(notice); break;
    case kFetch: wanted(notice); break;
    case kBarrier: barrier(notice); break;
    case kAwait:
      workers_[worker_of(notice.from)].awaited = notice.step;
      tell_of_round();
      break;
    case kLeave: worker_left(worker_of(notice.from), -1); break;
    case kGone: server_left(notice.from); break;
    case kPull:
      --peer_of(notice.from).asked;
      pulls_.push_back(notice);
      break;
    case kDone: done(notice); break;
    case kMissing: {
      const int missing = static_cast<int>(notice.value);
      const std::string rank = "rank " + std::to_string(missing);
      if (notice.piece == 0) {
        fail_left(missing, notice.tensor, rank + " has left, and this rank waits for its gradient");
      } else {
        Failure failure = failure_of(
            notice.tensor, "others have waited for " + rank + " by the deadline, and have failed");
        failure.peer = missing;
        world_.fail(std::move(failure), /*tell=*/serves_);
      }
      break;
    }
    default: break;
  }
  if (notice.kind == World::kAsked) {
    world_.answer(notices_,
                  [&](const Wait& asked, bool is_awaited) { return waits_for(asked, is_awaited); });
  } else if (notice.kind == World::kFailed) {
    const auto rank = std::ranges::find(world_ranks_, notice.from) - world_ranks_.begin();
    const std::size_t worker = worker_of(static_cast<int>(rank));
    if (worker < workers_.size()) worker_left(worker, static_cast<int>(notice.value) - 1);
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

Failure Party::failure_of(std::uint32_t tensor, const std::string& what) const {
  const std::string& name = plan_.parameters[tensor].name;
  return {.operation = "ParameterServer", .tensor = name, .what = "\"" + name + "\": " + what};
}

// Only this rank's world: ranks that do not wait go on. But all wait for a server sooner or later.
void Party::fail_left(int rank, std::uint32_t tensor, const std::string& what) {
  Failure failure = failure_of(tensor, what);
  failure.is_mismatch = true;
  failure.peer = rank;
  world_.fail(std::move(failure), /*tell=*/serves_);
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
  TimePoint due = serves_ ? probe_at() : TimePoint::max();
  for (const OpenCall& one : open_) {
    if (one.unready > 0 || has_accused_) continue;
    due = std::min(due, Deadline::after(one.since, world_.options().deadline).at());
  }
  return due;
}

void Party::check_deadlines() {
  const TimePoint now = world_.time();
  if (serves_ && probe_at() <= now) probe_workers();
  for (const OpenCall& one : open_) {
    const TimePoint due = Deadline::after(one.since, world_.options().deadline).at();
    if (one.unready > 0 || has_accused_ || due > now) continue;
    has_accused_ = true;
    accuse_servers(one);
  }
}

// As a worker, this rank waits for servers; as a server, for what the worker that asks waits for;
// in serve(), for all workers.
Answer Party::waits_for(const Wait& asked, bool is_awaited) {
  Answer answer{.waits = is_awaited || trainer_waits_};
  if (answer.waits) answer.whom = awaited_servers();
  if (asked.context == end_->context()) {
    const auto by = std::ranges::find(world_ranks_, asked.by) - world_ranks_.begin();
    const std::size_t worker = worker_of(static_cast<int>(by));
    if (worker < workers_.size()) add_missing(worker, answer);
  } else if (is_serving_) {
    answer.waits = true;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (!workers_[w].has_left) answer.whom.push_back(wait_for(w));
    }
  }
  return answer;
}

}  // namespace leat::comm
