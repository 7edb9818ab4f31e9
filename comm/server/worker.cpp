#include "leat/comm/server/worker.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace leat::comm {

Worker::Worker(Endpoint& endpoint)
    : endpoint_(endpoint),
      world_(endpoint.world()),
      plan_(endpoint.plan()),
      trainer_(endpoint),
      variables_(plan_.parameters.size()),
      pushes_(endpoint.options().credit_bytes, plan_.pieces.size()) {
  for (const ServerPlan::Piece& piece : plan_.pieces) {
    const bool is_new = std::ranges::find(owners_, piece.owner, &Owner::rank) == owners_.end();
    if (is_new) owners_.push_back({.rank = piece.owner});
  }
  trainer_.done(done_so_far());
  const ServerOptions& options = endpoint.options();
  std::size_t slots = 0;
  if (world_.options().link.moves_data && !cpu_reaches(options.device) &&
      plan_.cut.largest_piece > 0) {
    slots = 2 * (1 + std::min<std::uint64_t>(options.credit_bytes / plan_.cut.largest_piece,
                                             plan_.pieces.size()));
    staging_.emplace(options.device, slots, plan_.cut.largest_piece);
  }
  staging_events_.emplace(world_, endpoint.transport()->world_rank(), endpoint.calls(), slots + 8,
                          StreamCalls::Streams::kOfExchange);
}

void Worker::add_to(ServerStats& stats) const noexcept {
  stats.pieces_sent = pieces_sent_.load(std::memory_order_relaxed);
  stats.pieces_fetched = pieces_fetched_.load(std::memory_order_relaxed);
}

// ---- the fiber's

void Worker::handle(const TrainerCall& call) {
  switch (call.kind) {
    case TrainerCall::Kind::kOpen:
      open_.push_back({.kind = call.opens,
                       .operation = call.operation,
                       .unready = call.index,
                       .left = call.pieces,
                       .unbegun = call.pieces,
                       .since = world_.time(),
                       .step = call.step,
                       .samples = call.samples});
      break;
    case TrainerCall::Kind::kSend: send(call); break;
    case TrainerCall::Kind::kFetch: fetch(call); break;
    case TrainerCall::Kind::kStagedIn: begin_push(endpoint_.transfer(call.index)); break;
    case TrainerCall::Kind::kStagedOut: ended(endpoint_.transfer(call.index)); break;
    case TrainerCall::Kind::kServe: leave(); break;
    case TrainerCall::Kind::kEndedStep: ended_step_ = call.step; break;
    default: break;  // not for this side
  }
}

void Worker::handle(const Notice& notice) {
  switch (static_cast<ServerNotice>(notice.kind)) {
    case kPull:
      --owner_of(notice.from).asked;
      pulls_.push_back(notice);
      break;
    case kDone:
      owner_of(notice.from).done = notice.step;
      trainer_.done(done_so_far());
      break;
    case kGone: {
      const auto gone = std::ranges::find(owners_, notice.from, &Owner::rank);
      if (gone != owners_.end()) gone->is_gone = true;
      break;
    }
    case kMissing: {
      const int rank = static_cast<int>(notice.value) - 1;
      const bool has_left = notice.piece == 0;
      const std::string who = rank < 0 ? "a rank that waits" : "rank " + std::to_string(rank);
      endpoint_.fail(notice.tensor, rank, has_left,
                     who + (has_left ? " has left, and this rank waits for its gradient"
                                     : " has not come by the deadline, and others have failed"));
      break;
    }
    default: break;  // not for this side
  }
}

void Worker::act() {
  push_next();
  pull_next();
  end_barriers();
  tell_ended_step();
  require_owners();
}

// A parameter is ready to be sent or fetched. Returns the call that it is of.
Worker::OpenCall& Worker::ready(const TrainerCall& call) {
  OpenCall& one = call_of(call.operation);
  --one.unready;
  one.since = world_.time();
  return one;
}

Worker::OpenCall& Worker::call_of(const Operation* operation) {
  return *std::ranges::find(open_, operation, &OpenCall::operation);
}

// `pieces` of a call have ended, or it has none. The call ends with its last one.
void Worker::advance(OpenCall& call, std::uint32_t pieces) {
  call.left -= pieces;
  call.since = world_.time();
  if (call.left > 0 || call.unready > 0) return;
  Operation& operation = *call.operation;
  open_.erase(open_.begin() + (&call - open_.data()));
  if (world_.take(operation)) world_.finish(operation);  // else it was failed
}

// A barrier ends once no send, or fetch, that was called before it is open. One of sends has been
// told to the servers then.
void Worker::end_barriers() {
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
      for (const Owner& server : owners_) {
        endpoint_.tell(server.rank,
                       {.kind = kBarrier, .step = barrier.step, .value = barrier.samples});
      }
    }
    if (of_sends && done_so_far() < before && !std::exchange(barrier.is_asked, true)) {
      for (const Owner& server : owners_) {
        if (server.done < before) endpoint_.tell(server.rank, {.kind = kAwait, .step = before});
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
void Worker::tell_ended_step() {
  if (told_step_ == ended_step_) return;
  for (const OpenCall& one : open_) {
    if (one.kind == TrainerCall::Kind::kSend && one.unbegun > 0) return;
  }
  told_step_ = ended_step_;
  for (const Owner& server : owners_)
    endpoint_.tell(server.rank, {.kind = kBarrier, .step = told_step_});
}

// All of this worker's servers have done this step.
std::uint64_t Worker::done_so_far() const noexcept {
  return owners_.empty() ? ~std::uint64_t{0} : std::ranges::min(owners_, {}, &Owner::done).done;
}

Worker::Owner& Worker::owner_of(int rank) noexcept {
  return *std::ranges::find(owners_, rank, &Owner::rank);
}

void Worker::leave() {
  if (std::exchange(has_left_, true)) return;
  // Servers that own nothing wait for that, too.
  for (const int server : plan_.servers) endpoint_.tell(server, {.kind = kLeave});
}

// ---- push

void Worker::send(const TrainerCall& call) {
  if (world_.is_dead()) return;
  const std::uint32_t tensor = call.index;
  variables_[tensor].send = call.operation;
  variables_[tensor].step = call.step;
  variables_[tensor].samples = call.samples;
  variables_[tensor].to_send = plan_.first_piece[tensor + 1] - plan_.first_piece[tensor];
  OpenCall& open = ready(call);
  for (std::uint32_t i = plan_.first_piece[tensor]; i < plan_.first_piece[tensor + 1]; ++i) {
    pushes_.queue(endpoint_.entry_of(i));
  }
  if (variables_[tensor].to_send > 0) return;
  trainer_.sent(tensor);
  advance(open, 0);
}

// Where the piece is in this worker's memory. Step 0: the first worker's weights.
std::byte* Worker::memory_of(std::uint32_t piece, bool of_weights) const {
  const ServerPlan::Piece& one = plan_.pieces[piece];
  const Parameter& parameter = plan_.parameters[one.tensor];
  std::byte* const data = (of_weights ? parameter.weights : parameter.gradient).data();
  return data != nullptr ? data + one.first_byte : nullptr;
}

void Worker::push_next() {
  while (!staging_ || staging_->has_free()) {
    const std::optional<CreditQueue::Entry> next = pushes_.next();
    if (!next.has_value()) return;
    PieceTransfer& transfer =
        endpoint_.take(*this, /*is_push=*/true, next->piece, plan_.pieces[next->piece].owner);
    if (staging_) {
      transfer.slot = staging_->take();
      if (copy(Staging::Way::kIn, transfer)) continue;
    }
    begin_push(transfer);
  }
}

// Copies between the slot and the device. Returns whether the copy has not run yet: a TrainerCall
// tells when it has.
bool Worker::copy(Staging::Way way, PieceTransfer& transfer) {
  const bool in = way == Staging::Way::kIn;
  const ServerPlan::Piece& piece = plan_.pieces[transfer.piece];
  try {
    const Part part{.data = memory_of(transfer.piece, !in || variables_[piece.tensor].step == 0),
                    .bytes = piece.bytes};
    const gpu::Stream* const stream = staging_->copy(way, transfer.slot, {&part, 1});
    return stream != nullptr &&
           staging_events_->defer(
               *stream, {.kind = in ? TrainerCall::Kind::kStagedIn : TrainerCall::Kind::kStagedOut,
                         .index = transfer.index});
  } catch (const std::exception& error) {
    fail_by(world_, endpoint_.transport()->world_rank(), error);
    return false;
  }
}

void Worker::begin_push(PieceTransfer& transfer) {
  const Variable& mine = variables_[plan_.pieces[transfer.piece].tensor];
  if (!world_.is_dead()) --call_of(mine.send).unbegun;
  endpoint_.tell(
      transfer.peer,
      {.kind = kPush, .piece = transfer.piece, .step = mine.step, .value = mine.samples});
  endpoint_.begin(transfer, staging_ ? transfer.slot : memory_of(transfer.piece, mine.step == 0));
}

// ---- pull

void Worker::fetch(const TrainerCall& call) {
  if (world_.is_dead()) return;
  const std::uint32_t tensor = call.index;
  const std::uint32_t first = plan_.first_piece[tensor];
  const std::uint32_t end = plan_.first_piece[tensor + 1];
  variables_[tensor].fetch = call.operation;
  variables_[tensor].to_fetch = end - first;
  OpenCall& open = ready(call);
  for (Owner& server : owners_) {
    const auto owned = std::ranges::count(plan_.pieces.begin() + first, plan_.pieces.begin() + end,
                                          server.rank, &ServerPlan::Piece::owner);
    if (owned == 0) continue;
    server.asked += static_cast<std::uint32_t>(owned);
    endpoint_.tell(server.rank, {.kind = kFetch, .tensor = tensor, .step = call.step});
  }
  if (end > first) return;
  trainer_.fetched(tensor);
  advance(open, 0);
}

void Worker::pull_next() {
  std::size_t begun = 0;
  for (; begun < pulls_.size() && (!staging_ || staging_->has_free()); ++begun) {
    const Notice& notice = pulls_[begun];
    PieceTransfer& transfer = endpoint_.take(*this, /*is_push=*/false, notice.piece, notice.from);
    if (staging_) transfer.slot = staging_->take();
    endpoint_.begin(transfer,
                    staging_ ? transfer.slot : memory_of(notice.piece, /*of_weights=*/true));
  }
  pulls_.erase(pulls_.begin(), pulls_.begin() + static_cast<std::ptrdiff_t>(begun));
}

void Worker::finish(PieceTransfer& transfer) {
  if (!transfer.is_push && !world_.is_dead() && staging_ && copy(Staging::Way::kOut, transfer))
    return;
  ended(transfer);
}

// The memory of the piece is free, or has its weights.
void Worker::ended(PieceTransfer& transfer) {
  const ServerPlan::Piece& piece = plan_.pieces[transfer.piece];
  const bool is_push = transfer.is_push;
  if (transfer.slot != nullptr) staging_->give(std::exchange(transfer.slot, nullptr));
  endpoint_.recycle(transfer);
  if (world_.is_dead()) return;
  if (is_push) pushes_.finished(piece.bytes);
  (is_push ? pieces_sent_ : pieces_fetched_).fetch_add(1, std::memory_order_relaxed);
  Variable& one = variables_[piece.tensor];
  if (is_push && --one.to_send == 0) trainer_.sent(piece.tensor);
  if (!is_push && --one.to_fetch == 0) trainer_.fetched(piece.tensor);
  advance(call_of(is_push ? one.send : one.fetch), 1);
}

// ---- who is late, who has left

// Fails if something that is open needs a server that has left.
void Worker::require_owners() {
  for (const Owner& server : owners_) {
    if (!server.is_gone) continue;
    const bool holds_barrier = std::ranges::any_of(open_, [&](const OpenCall& one) {
      return one.kind == TrainerCall::Kind::kSendBarrier && one.is_asked && !one.is_told &&
             server.done + 1 < one.step;
    });
    if (server.asked == 0 && !holds_barrier) continue;
    for (const ServerPlan::Piece& piece : plan_.pieces) {
      if (piece.owner != server.rank ||
          (!holds_barrier && variables_[piece.tensor].to_fetch == 0)) {
        continue;
      }
      const int rank = endpoint_.world_rank(server.rank);
      return endpoint_.fail(
          piece.tensor, rank, /*is_mismatch=*/true,
          "rank " + std::to_string(rank) + " has left, and it serves this parameter");
    }
  }
}

// The servers of what is under way, and those that have not done the step before a barrier. What
// waits for one server holds up the queue, and so what waits for others.
std::vector<Wait> Worker::awaited_owners() const {
  std::vector<Wait> all;
  for (const Owner& server : owners_) {
    const auto is_under_way = [&](const ServerPlan::Piece& piece) {
      const Variable& mine = variables_[piece.tensor];
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
    all.push_back({.rank = endpoint_.world_rank(server.rank),
                   .by = endpoint_.transport()->world_rank(),
                   .context = endpoint_.transport()->context()});
  }
  return all;
}

TimePoint Worker::next_deadline() const {
  TimePoint due = TimePoint::max();
  for (const OpenCall& one : open_) {
    if (one.unready > 0 || has_accused_) continue;
    due = std::min(due, Deadline::after(one.since, world_.options().deadline).at());
  }
  return due;
}

void Worker::check_deadline(TimePoint now) {
  if (next_deadline() > now) return;
  const auto late = std::ranges::min_element(open_, {}, [](const OpenCall& one) {
    return one.unready > 0 ? TimePoint::max() : one.since;
  });
  bool sends = late->kind == TrainerCall::Kind::kSend;
  auto one = std::ranges::find_if(variables_, [&](const Variable& variable) {
    return (sends ? variable.send : variable.fetch) == late->operation &&
           (sends ? variable.to_send : variable.to_fetch) > 0;
  });
  if (one == variables_.end()) {  // a barrier: names what is under way
    one = std::ranges::find_if(
        variables_, [](const Variable& any) { return any.to_send > 0 || any.to_fetch > 0; });
    sends = one != variables_.end() && one->to_send > 0;
  }
  Failure failure{.operation = "ParameterServer",
                  .what = "a barrier has not ended by the deadline"};
  if (one != variables_.end()) {
    failure = endpoint_.failure_of(static_cast<std::uint32_t>(one - variables_.begin()),
                                   sends ? "the gradient was not taken by the deadline"
                                         : "the weights have not come by the deadline");
  }
  has_accused_ = true;
  endpoint_.accuse(std::move(failure), awaited_owners());
}

void Worker::add_waits(const Wait& /*asked*/, bool is_awaited, Answer& answer) {
  if (is_awaited || trainer_.waits()) answer.add({.waits = true, .whom = awaited_owners()});
}

}  // namespace leat::comm
