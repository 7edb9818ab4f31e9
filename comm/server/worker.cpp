// What a worker's fiber does: gradients to the servers, weights from them.
#include <algorithm>
#include <exception>
#include <utility>

#include "leat/comm/server/party.h"

namespace leat::comm {

// ---- completions

void Party::open_call(const TrainerCall& call) {
  open_.push_back({.kind = call.opens,
                   .operation = call.operation,
                   .unready = call.index,
                   .left = call.pieces,
                   .unbegun = call.pieces,
                   .since = world_.time(),
                   .step = call.step,
                   .samples = call.samples});
}

// A parameter is ready to be sent or fetched. Returns the call that it is of.
Party::OpenCall& Party::ready(const TrainerCall& call) {
  OpenCall& one = call_of(call.operation);
  --one.unready;
  one.since = world_.time();
  return one;
}

Party::OpenCall& Party::call_of(const Operation* operation) {
  return *std::ranges::find(open_, operation, &OpenCall::operation);
}

// `pieces` of a call have ended, or it has none. The call ends with its last one.
void Party::advance(OpenCall& call, std::uint32_t pieces) {
  call.left -= pieces;
  call.since = world_.time();
  if (call.left > 0 || call.unready > 0) return;
  Operation& operation = *call.operation;
  open_.erase(open_.begin() + (&call - open_.data()));
  if (world_.take(operation)) world_.finish(operation);  // else it was failed
}

// A barrier ends once no send, or fetch, that was called before it is open. One of sends has been
// told to the servers then.
void Party::end_barriers() {
  for (std::size_t i = 0; i < open_.size();) {
    OpenCall& barrier = open_[i];
    const bool of_sends = barrier.kind == TrainerCall::Kind::kSendBarrier;
    if (!of_sends && barrier.kind != TrainerCall::Kind::kFetchBarrier) {
      ++i;
      continue;
    }
    const auto awaited = of_sends ? TrainerCall::Kind::kSend : TrainerCall::Kind::kFetch;
    bool is_open = false;
    bool is_unbegun = false;
    for (std::size_t earlier = 0; earlier < i; ++earlier) {
      if (open_[earlier].kind != awaited) continue;
      is_open = true;
      is_unbegun = is_unbegun || open_[earlier].unbegun > 0;
    }
    // One at a time, so that a server knows one step of each worker.
    const std::uint64_t before = barrier.step - 1;
    if (of_sends && !barrier.is_told && !is_unbegun && done_so_far() >= before) {
      barrier.is_told = true;
      for (const Peer& server : peers_) {
        tell(server.rank, {.kind = kBarrier, .step = barrier.step, .value = barrier.samples});
      }
    }
    if (of_sends && done_so_far() < before && !std::exchange(barrier.is_asked, true)) {
      for (const Peer& server : peers_) {
        if (server.done < before) tell(server.rank, {.kind = kAwait, .step = before});
      }
    }
    if (is_open || (of_sends && !barrier.is_told)) {
      ++i;
    } else {
      advance(barrier, 0);
    }
  }
}

// With a bound of staleness: once what was sent of a step is announced, the servers learn that no
// more comes of it, so that nobody waits for what this worker has not sent.
void Party::tell_ended_step() {
  if (told_step_ == ended_step_) return;
  for (const OpenCall& one : open_) {
    if (one.kind == TrainerCall::Kind::kSend && one.unbegun > 0) return;
  }
  told_step_ = ended_step_;
  for (const Peer& server : peers_) tell(server.rank, {.kind = kBarrier, .step = told_step_});
}

// All of this worker's servers have done this step.
std::uint64_t Party::done_so_far() const noexcept {
  return peers_.empty() ? ~std::uint64_t{0} : std::ranges::min(peers_, {}, &Peer::done).done;
}

Party::Peer& Party::peer_of(int rank) noexcept {
  return *std::ranges::find(peers_, rank, &Peer::rank);
}

void Party::done(const Notice& notice) {
  peer_of(notice.from).done = notice.step;
  done_.store(done_so_far(), std::memory_order_release);
  done_bell_.ring();
}

// This worker takes part in nothing more. Servers that own nothing wait for that, too.
void Party::leave() {
  if (!works_ || std::exchange(has_left_, true)) return;
  for (const int server : plan_.servers) tell(server, {.kind = kLeave});
}

// ---- push

void Party::send(const TrainerCall& call) {
  if (world_.is_dead()) return;
  const std::uint32_t tensor = call.index;
  mine_[tensor].send = call.operation;
  mine_[tensor].step = call.step;
  mine_[tensor].samples = call.samples;
  mine_[tensor].to_send = plan_.first_piece[tensor + 1] - plan_.first_piece[tensor];
  OpenCall& open = ready(call);
  for (std::uint32_t i = plan_.first_piece[tensor]; i < plan_.first_piece[tensor + 1]; ++i) {
    pushes_->queue(i, world_.time());
  }
  if (mine_[tensor].to_send > 0) return;
  sending_[tensor].store(false, std::memory_order_release);
  advance(open, 0);
}

// Where the piece is in this worker's memory. Step 0: the first worker's weights.
std::byte* Party::memory_of(std::uint32_t piece, bool of_weights) const {
  const ServerPlan::Piece& one = plan_.pieces[piece];
  const Parameter& parameter = plan_.parameters[one.tensor];
  std::byte* const data = (of_weights ? parameter.weights : parameter.gradient).data();
  return data != nullptr ? data + one.first_byte : nullptr;
}

void Party::push_next() {
  while (!staging_ || staging_->has_free()) {
    const std::optional<std::uint32_t> piece = pushes_->next();
    if (!piece.has_value()) return;
    Transfer& transfer = take_transfer(Transfer::Kind::kPush, *piece, plan_.pieces[*piece].owner);
    if (staging_) {
      transfer.slot = staging_->take();
      if (copy(Staging::Way::kIn, transfer)) continue;
    }
    begin_push(transfer);
  }
}

// Copies between the slot and the device. Returns whether the copy has not run yet: a TrainerCall
// tells when it has.
bool Party::copy(Staging::Way way, Transfer& transfer) {
  const bool in = way == Staging::Way::kIn;
  const ServerPlan::Piece& piece = plan_.pieces[transfer.piece];
  try {
    const Part part{.data = memory_of(transfer.piece, !in || mine_[piece.tensor].step == 0),
                    .bytes = piece.bytes};
    const gpu::Stream* const stream = staging_->copy(way, transfer.slot, {&part, 1});
    return stream != nullptr &&
           staging_events_->defer(
               *stream, {.kind = in ? TrainerCall::Kind::kStagedIn : TrainerCall::Kind::kStagedOut,
                         .index = transfer.index});
  } catch (const std::exception& error) {
    fail_by(world_, end_->world_rank(), error);
    return false;
  }
}

void Party::begin_push(Transfer& transfer) {
  const WorkerParameter& mine = mine_[plan_.pieces[transfer.piece].tensor];
  if (!world_.is_dead()) --call_of(mine.send).unbegun;
  tell(transfer.peer,
       {.kind = kPush, .piece = transfer.piece, .step = mine.step, .value = mine.samples});
  begin(transfer, staging_ ? transfer.slot : memory_of(transfer.piece, mine.step == 0));
}

void Party::pushed(Transfer& transfer) {
  const std::uint32_t piece = transfer.piece;
  recycle(transfer);
  if (world_.is_dead()) return;
  pushes_->finished(piece);
  const std::uint32_t tensor = plan_.pieces[piece].tensor;
  WorkerParameter& mine = mine_[tensor];
  if (--mine.to_send == 0) sending_[tensor].store(false, std::memory_order_release);
  {
    const SpinLockGuard guard(stats_lock_);
    ++stats_.pieces_sent;
  }
  advance(call_of(mine.send), 1);
}

// ---- pull

void Party::fetch(const TrainerCall& call) {
  if (world_.is_dead()) return;
  const std::uint32_t tensor = call.index;
  const std::uint32_t first = plan_.first_piece[tensor];
  const std::uint32_t end = plan_.first_piece[tensor + 1];
  mine_[tensor].fetch = call.operation;
  mine_[tensor].to_fetch = end - first;
  OpenCall& open = ready(call);
  for (Peer& server : peers_) {
    const auto owned = std::ranges::count(plan_.pieces.begin() + first, plan_.pieces.begin() + end,
                                          server.rank, &ServerPlan::Piece::owner);
    if (owned == 0) continue;
    server.asked += static_cast<std::uint32_t>(owned);
    tell(server.rank, {.kind = kFetch, .tensor = tensor, .step = call.step});
  }
  if (end > first) return;
  fetching_[tensor].store(false, std::memory_order_release);
  advance(open, 0);
}

void Party::pull_next() {
  std::size_t begun = 0;
  for (; begun < pulls_.size() && (!staging_ || staging_->has_free()); ++begun) {
    const Notice& notice = pulls_[begun];
    Transfer& transfer = take_transfer(Transfer::Kind::kPull, notice.piece, notice.from);
    if (staging_) transfer.slot = staging_->take();
    begin(transfer, staging_ ? transfer.slot : memory_of(notice.piece, /*of_weights=*/true));
  }
  pulls_.erase(pulls_.begin(), pulls_.begin() + static_cast<std::ptrdiff_t>(begun));
}

void Party::copy_out(Transfer& transfer) {
  if (!world_.is_dead() && staging_ && copy(Staging::Way::kOut, transfer)) return;
  pulled(transfer);
}

void Party::pulled(Transfer& transfer) {
  const std::uint32_t tensor = plan_.pieces[transfer.piece].tensor;
  recycle(transfer);
  if (world_.is_dead()) return;
  WorkerParameter& mine = mine_[tensor];
  if (--mine.to_fetch == 0) fetching_[tensor].store(false, std::memory_order_release);
  {
    const SpinLockGuard guard(stats_lock_);
    ++stats_.pieces_fetched;
  }
  advance(call_of(mine.fetch), 1);
}

// ---- who is late, who has left

void Party::server_left(int server) {
  if (std::ranges::find(peers_, server, &Peer::rank) != peers_.end())
    peer_of(server).is_gone = true;
}

// Fails if something that is open needs a server that has left.
void Party::require_servers() {
  for (const Peer& server : peers_) {
    if (!server.is_gone) continue;
    const bool holds_barrier = std::ranges::any_of(open_, [&](const OpenCall& one) {
      return one.kind == TrainerCall::Kind::kSendBarrier && one.is_asked && !one.is_told &&
             server.done + 1 < one.step;
    });
    if (server.asked == 0 && !holds_barrier) continue;
    for (const ServerPlan::Piece& piece : plan_.pieces) {
      if (piece.owner != server.rank || (!holds_barrier && mine_[piece.tensor].to_fetch == 0)) {
        continue;
      }
      const int rank = world_ranks_[static_cast<std::size_t>(server.rank)];
      return fail_left(rank, piece.tensor,
                       "rank " + std::to_string(rank) + " has left, and it serves this parameter");
    }
  }
}

// The servers of what is under way, and those that have not done the step before a barrier. What
// waits for one server holds up the line, and so what waits for others.
std::vector<Wait> Party::awaited_servers() const {
  std::vector<Wait> all;
  for (const Peer& server : peers_) {
    const auto is_under_way = [&](const ServerPlan::Piece& piece) {
      const WorkerParameter& mine = mine_[piece.tensor];
      return piece.owner == server.rank && (mine.to_send > 0 || mine.to_fetch > 0);
    };
    const auto holds_barrier = [&](const OpenCall& one) {
      return one.kind == TrainerCall::Kind::kSendBarrier && !one.is_told &&
             server.done + 1 < one.step;
    };
    if (!std::ranges::any_of(plan_.pieces, is_under_way) &&
        !std::ranges::any_of(open_, holds_barrier)) {
      continue;
    }
    all.push_back({.rank = world_ranks_[static_cast<std::size_t>(server.rank)],
                   .by = end_->world_rank(),
                   .context = end_->context()});
  }
  return all;
}

void Party::accuse_servers(const OpenCall& call) {
  const bool sends = call.kind == TrainerCall::Kind::kSend;
  const auto is_of_call = [&](const WorkerParameter& one) {
    return (sends ? one.send : one.fetch) == call.operation &&
           (sends ? one.to_send : one.to_fetch) > 0;
  };
  const auto one = std::ranges::find_if(mine_, is_of_call);
  Failure failure{.operation = "ParameterServer",
                  .what = "a barrier has not ended by the deadline"};
  if (one != mine_.end()) {
    failure = failure_of(static_cast<std::uint32_t>(one - mine_.begin()),
                         sends ? "the gradient was not taken by the deadline"
                               : "the weights have not come by the deadline");
  }
  world_.accuse({.failure = std::move(failure), .missing = awaited_servers(), .tell = serves_});
}

}  // namespace leat::comm
