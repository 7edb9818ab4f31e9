// The exchange's fiber: it waits for calls, notices and pieces, leads on rank 0, and begins pieces.
#include <algorithm>
#include <exception>
#include <utility>

#include "leat/comm/exchange/exchange.h"
#include "leat/comm/transports/rank_calls.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"

namespace leat::comm {

void Exchange::run() {
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
      select(on_recv(calls_, [&](std::optional<TrainerCall> call) { handle(*call); }),
             on_recv(notices_, [&](std::optional<Notice> notice) { handle(*notice); }),
             on_recv(finished_, [&](std::optional<Piece*> piece) { finish(**piece); }),
             on_timeout(time_left(), [&] { check_deadline(); }));
      do {
        while (drain()) {
        }
        if (leads_) {
          // What becomes ready at this instant, on any rank, is queued before the leader chooses.
          if (world_.is_virtual()) {
            settle();
            while (drain()) {
            }
          }
          if (!world_.is_dead()) leader_->order(outgoing_);
        }
        flush();
        start_ordered();
      } while (drain());  // pieces that ended within begin()
    });
    if (std::exchange(has_heard_, false)) {
      heard_.store(world_.time(), std::memory_order_relaxed);
    }
    if (world_.is_dead() && !std::exchange(has_told_failure_, true)) {
      for (TrainerGradient& one : gradients_) one.bell.ring();
    }
  }
  guarded([&] {
    if (world_.is_dead()) return;
    const Notice left{.kind = kLeft};
    tell({&left, 1});
  });
}

// Handles all that is there. Returns whether there was anything.
bool Exchange::drain() {
  bool any = false;
  for (std::optional<TrainerCall> call; calls_.try_recv(call) == ChannelStatus::ok; any = true) {
    handle(*call);
  }
  for (std::optional<Notice> notice; notices_.try_recv(notice) == ChannelStatus::ok; any = true) {
    handle(*notice);
  }
  for (std::optional<Piece*> piece; finished_.try_recv(piece) == ChannelStatus::ok; any = true) {
    finish(**piece);
  }
  return any;
}

void Exchange::handle(const TrainerCall& call) {
  switch (call.kind) {
    case TrainerCall::Kind::kReady: report(call); break;
    case TrainerCall::Kind::kAwaited: leader_->awaited(call.index); break;
    case TrainerCall::Kind::kStagedIn: end_->begin(pieces_[call.index].operation); break;
    case TrainerCall::Kind::kStagedOut: hand_over(pieces_[call.index]); break;
    case TrainerCall::Kind::kStop: is_stopping_ = true; break;
    default: break;  // of a ParameterServer
  }
}

// This rank's part of a gradient can be exchanged.
void Exchange::report(const TrainerCall& call) {
  const Unit& unit = plan_.units[plan_.unit_of[call.index]];
  meter_.add_computed(-1, world_.time());
  mine_[call.index] = {.tensor = call.index,
                       .step = call.step,
                       .samples = call.samples,
                       .is_given = call.given,
                       .orders_due = std::max(1U, unit.pieces),
                       .pieces_left = unit.pieces};
  const Notice report{.from = end_->rank(),
                      .kind = kReport,
                      .tensor = call.index,
                      .step = call.step,
                      .value = call.given ? std::uint64_t{1} : 0};
  if (leads_) return count(report);
  outgoing_.push_back(report);
  check_left();
}

void Exchange::count(const Notice& report) {
  leader_->report(report, world_.time(), outgoing_);
  check_left();
}

void Exchange::handle(const Notice& notice) {
  if (world_.is_dead()) return;  // run() tells the trainer
  if (notice.kind == World::kAsked) {
    return world_.answer(notices_, [&](const Wait& asked, bool) { return waits_for(asked); });
  }
  if (notice.kind == World::kFailed) return;  // who waits for that rank finds out
  has_heard_ = true;
  switch (static_cast<NoticeKind>(notice.kind)) {
    case kReport: count(notice); break;
    case kOrder: add_order({.unit = notice.tensor, .piece = notice.piece}); break;
    case kAbsent: mine_[notice.tensor].is_absent = true; break;
    case kEmpty: complete(notice.tensor, true); break;
    case kLeft:
      left_.push_back(static_cast<std::size_t>(notice.from));
      check_left();
      break;
  }
}

// From rank 0 to the others, and from another rank to rank 0.
void Exchange::tell(std::span<const Notice> notices) {
  if (!leads_) return end_->post(0, notices);
  for (int rank = 1; rank < end_->size(); ++rank) end_->post(rank, notices);
}

void Exchange::flush() {
  if (outgoing_.empty()) return;
  tell(outgoing_);
  if (leads_) std::ranges::for_each(outgoing_, [&](const Notice& decision) { handle(decision); });
  outgoing_.clear();
}

// ---- ranks that are late, or have left

// How long the gradient that some ranks have reported first may wait for the others.
Duration Exchange::time_left() const {
  if (!leads_ || has_accused_ || world_.is_dead() || leader_->incomplete().empty()) {
    return Duration::max();
  }
  const TimePoint since = leader_->incomplete().front().since;
  return Deadline::after(since, world_.options().deadline).at() - world_.time();
}

void Exchange::check_deadline() {
  if (time_left() > Duration::zero()) return;
  has_accused_ = true;
  const Leader::Incomplete& late = leader_->incomplete().front();
  std::vector<int> ranks;
  for (const Wait& one : missing()) ranks.push_back(one.rank);
  std::ranges::sort(ranks);
  world_.accuse({.failure = failure_of(late.tensor, late.step,
                                       ": " + describe_ranks(ranks) +
                                           " called neither ready() nor end_backward() by the "
                                           "deadline"),
                 .missing = missing()});
}

// The ranks that have not reported what others have reported first.
std::vector<Wait> Exchange::missing() const {
  std::vector<Wait> all;
  if (leader_->incomplete().empty()) return all;
  const std::vector<bool>& reported = leader_->incomplete().front().reported;
  for (std::size_t rank = 0; rank < reported.size(); ++rank) {
    if (!reported[rank]) all.push_back({.rank = world_ranks_[rank]});
  }
  return all;
}

// World knows whom the pieces wait for.
Answer Exchange::waits_for(const Wait& asked) const {
  Answer answer{.waits = trainer_waits_};
  if (leads_ && (answer.waits || asked.context == end_->context())) {
    answer.whom = missing();
    answer.waits = answer.waits || !answer.whom.empty();
  } else if (answer.waits) {
    answer.whom.push_back(leader());
  }
  return answer;
}

Wait Exchange::leader() const {
  return {.rank = world_ranks_.front(), .by = end_->world_rank(), .context = end_->context()};
}

// Under World's lock.
bool Exchange::is_awaited(const Operation& operation) noexcept {
  return static_cast<Piece*>(operation.owner)->exchange->trainer_waits_;
}

// A rank that has left reports nothing more, and rank 0 then orders nothing more. What was ordered
// before is under way, and ends.
void Exchange::check_left() {
  for (const std::size_t rank : left_) {
    const auto fail_if_waited_for = [&](const auto& tensors, const auto& waits) {
      const auto one = std::ranges::find_if(tensors, waits);
      if (one == tensors.end()) return;
      const int peer = world_ranks_[rank];
      Failure failure = failure_of(
          one->tensor, one->step,
          ": rank " + std::to_string(peer) + " destroyed its exchange, and others wait for it");
      failure.is_mismatch = true;
      failure.peer = peer;
      world_.fail(std::move(failure));
    };
    if (leads_) {
      fail_if_waited_for(leader_->incomplete(),
                         [&](const auto& one) { return !one.reported[rank]; });
    } else {
      fail_if_waited_for(mine_, [](const FiberGradient& one) { return one.orders_due > 0; });
    }
  }
}

Failure Exchange::failure_of(std::uint32_t tensor, std::uint64_t step,
                             const std::string& what) const {
  const std::string& name = plan_.gradients[tensor].name;
  const std::string operation = "step " + std::to_string(step);
  return {
      .operation = operation, .tensor = name, .what = "\"" + name + "\" of " + operation + what};
}

// ---- pieces

void Exchange::add_order(const Order& order) {
  const Unit& unit = plan_.units[order.unit];
  orders_[ordered_++ % orders_.size()] = &pieces_[unit.first_piece + order.piece];
  for (const std::uint32_t tensor : unit.tensors) --mine_[tensor].orders_due;
}

void Exchange::start_ordered() {
  if (world_.is_dead()) begun_ = ordered_;
  for (; begun_ < ordered_; ++begun_) {
    Piece& piece = *orders_[begun_ % orders_.size()];
    if (is_staged_) {
      if (piece.slot != nullptr) return;  // the copy back of its last step has not been seen
      piece.slot = staging_->take();
      if (piece.slot == nullptr) return;
    }
    if (under_way_++ == 0) meter_.set_busy(true, world_.time());
    if (options_.trace != nullptr) piece.began = world_.time();
    start(piece, begun_);
  }
}

namespace {

// Where the piece of a gradient begins; null where there is no memory (LinkModel::moves_data).
std::byte* stretch(const Gradient& gradient, const Unit& unit, std::uint32_t piece) {
  std::byte* const data = gradient.data.data();
  return data != nullptr ? data + piece * unit.piece_bytes : nullptr;
}

}  // namespace

// Copies the piece to its slot if it is staged, and begins it. Whatever fails, finish() comes.
void Exchange::start(Piece& piece, std::uint64_t number) {
  const Order order = piece.order;
  const Unit& unit = plan_.units[order.unit];
  const std::uint32_t tensor = unit.tensors.front();
  const Gradient& gradient = plan_.gradients[tensor];
  std::byte* const data = is_staged_ ? piece.slot : stretch(gradient, unit, order.piece);
  const bool contributes =
      (is_staged_ && options_.policy == Policy::kBucketed) || mine_[tensor].is_given;
  piece.operation = {
      .signature = {.kind = OperationKind::kAllReduce,
                    .dtype = gradient.dtype,
                    .is_weighted = options_.weights == Weights::kSamples,
                    .on_device = on_device_,
                    .count = unit.bytes_of(order.piece) / gpu::size_of(gradient.dtype),
                    .number = number,
                    .tag = (std::uint64_t{order.unit} << 32) | order.piece},
      .label = gradient.name.c_str(),
      .in = contributes ? data : nullptr,
      .out = data,
      .samples = mine_[tensor].samples,
      .finished = &Exchange::finished,
      .is_awaited = &Exchange::is_awaited,
      .owner = &piece};
  if (is_staged_ && contributes && copy(piece, Staging::Way::kIn)) return;
  end_->begin(piece.operation);
}

// On any thread or fiber.
void Exchange::finished(Operation& operation, const Failure* /*failure*/) noexcept {
  // A copy, which outlives the exchange: once it has the piece, it may end.
  const Channel<Piece*> finished = static_cast<Piece*>(operation.owner)->exchange->finished_;
  static_cast<void>(finished.try_send(static_cast<Piece*>(operation.owner)));
}

void Exchange::finish(Piece& piece) {
  const Order order = piece.order;
  has_heard_ = true;
  if (leads_) leader_->finished(order);
  if (options_.trace != nullptr) {  // on the link one comes after the other
    const TimePoint begin = std::max(piece.began, std::exchange(link_was_free_, world_.time()));
    const std::uint32_t tensor = plan_.units[order.unit].tensors.front();
    trace(Trace::Kind::kPiece, tensor, mine_[tensor].step, begin, order.piece);
  }
  if (!world_.is_dead()) {
    meter_.add_piece(plan_.units[order.unit].bytes_of(order.piece));
    const bool is_copied_later = is_staged_ && copy(piece, Staging::Way::kOut);
    for (const std::uint32_t tensor : plan_.units[order.unit].tensors) {
      if (--mine_[tensor].pieces_left == 0 && !world_.is_dead()) {
        complete(tensor, mine_[tensor].is_absent);
      }
    }
    if (is_copied_later) return;  // the slot is not free yet
  }
  hand_over(piece);
}

// Copies a piece to its slot or back. Returns whether the copy has not run yet: a call tells.
bool Exchange::copy(Piece& piece, Staging::Way way) {
  const bool is_out = way == Staging::Way::kOut;
  const Unit& unit = plan_.units[piece.order.unit];
  try {
    parts_.clear();
    for (const std::uint32_t tensor : unit.tensors) {
      const Gradient& gradient = plan_.gradients[tensor];
      parts_.push_back({.data = stretch(gradient, unit, piece.order.piece),
                        .bytes = std::min(gradient.data.size(), unit.bytes_of(piece.order.piece)),
                        .dtype = gradient.dtype,
                        .is_absent = is_out ? mine_[tensor].is_absent : !mine_[tensor].is_given});
    }
    const gpu::Stream* const stream = staging_->copy(way, piece.slot, parts_);
    if (stream == nullptr) return false;
    // The trainer's stream waits for this record, or for that of a later piece.
    for (const std::uint32_t tensor : unit.tensors) {
      if (is_out) gradients_[tensor].handed->record(*stream);
    }
    return staging_events_->defer(
        *stream, {.kind = is_out ? TrainerCall::Kind::kStagedOut : TrainerCall::Kind::kStagedIn,
                  .index = static_cast<std::uint32_t>(&piece - pieces_.data())});
  } catch (const std::exception& error) {
    fail_by(world_, end_->world_rank(), error);
    return false;
  }
}

// The piece is done with, and its slot free.
void Exchange::hand_over(Piece& piece) {
  if (piece.slot != nullptr) staging_->give(std::exchange(piece.slot, nullptr));
  if (--under_way_ == 0) meter_.set_busy(false, world_.time());
}

void Exchange::complete(std::uint32_t tensor, bool is_empty) {
  mine_[tensor].orders_due = 0;
  TrainerGradient& one = gradients_[tensor];
  one.is_empty = is_empty;
  one.result_step.store(mine_[tensor].step, std::memory_order_release);
  one.bell.ring();
}

}  // namespace leat::comm
