#include "leat/comm/server/endpoint.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "leat/comm/exchange/agreement.h"
#include "leat/comm/server/server.h"
#include "leat/comm/server/worker.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"

namespace leat::comm {
namespace {

std::string in_words(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += ' ' + std::to_string(rank);
  return text;
}

std::string in_words(const Optimizer& optimizer) {
  const auto text = [](const char* name, auto... values) {
    std::ostringstream all;
    all.imbue(std::locale::classic());
    all.precision(std::numeric_limits<float>::max_digits10);
    all << name;
    ((all << ' ' << values), ...);
    return all.str();
  };
  if (const auto* const one = std::get_if<Sgd>(&optimizer)) return text("Sgd", one->rate);
  if (const auto* const one = std::get_if<Momentum>(&optimizer)) {
    return text("Momentum", one->rate, one->momentum);
  }
  const Adam& adam = std::get<Adam>(optimizer);
  return text("Adam", adam.rate, adam.beta1, adam.beta2, adam.epsilon);
}

// A notice of every kind that a rank may not have read yet: a piece is announced once until it has
// come, a parameter is asked for once, and barriers are one at a time.
std::int64_t notices_under_way(const ServerPlan& plan) {
  const std::size_t ranks = plan.workers.size() + plan.servers.size();
  return static_cast<std::int64_t>(ranks * (plan.pieces.size() + 2 * plan.parameters.size() + 8));
}

// As a worker a push and a pull of each piece, as a server those of all workers.
std::int64_t transfers_under_way(const ServerPlan& plan) {
  return static_cast<std::int64_t>(2 * (1 + plan.workers.size()) * plan.pieces.size());
}

}  // namespace

// ---- the trainer's side

Endpoint::Endpoint(const Communicator& communicator, std::vector<Parameter> parameters,
                   ServerOptions options)
    : options_(std::move(options)),
      plan_(std::move(parameters), options_, communicator.size()),
      control_(communicator.duplicate()),
      end_(control_.transport()->sibling(0x6C65617453657276U)),
      world_(end_->world()),
      calls_(static_cast<std::int64_t>(4 * plan_.parameters.size() + 64), "comm calls"),
      notices_(notices_under_way(plan_), "comm notices"),
      finished_(transfers_under_way(plan_), "comm pieces") {
  const std::vector<std::string> texts = {
      "servers" + in_words(plan_.servers), "workers" + in_words(plan_.workers),
      "a bound of staleness of " +
          (options_.staleness ? std::to_string(*options_.staleness) : std::string("none")),
      "the optimizer " + in_words(options_.optimizer)};
  world_ranks_ = agree(control_, plan_.cut, plan_.cut_options, "ParameterServer", texts);
  try {
    start();
  } catch (...) {
    world_.remove_listener(notices_);
    world_.fail({.peer = end_->world_rank(),
                 .operation = "ParameterServer",
                 .what = "rank " + std::to_string(end_->world_rank()) +
                         " could not make its end of a ParameterServer; it has thrown why"});
    throw;
  }
  try {
    if (worker_ != nullptr) worker_->trainer().load_weights();
  } catch (...) {
    end();
    throw;
  }
}

Endpoint::~Endpoint() { end(); }

void Endpoint::start() {
  if (ServerPlan::has(plan_.workers, rank())) {
    worker_ = std::make_unique<Worker>(*this);
    sides_.push_back(worker_.get());
  }
  if (ServerPlan::has(plan_.servers, rank())) {
    server_ = std::make_unique<Server>(*this);
    sides_.push_back(server_.get());
  }
  end_->listen(notices_);
  world_.add_listener(end_->world_rank(), end_->context(), notices_);
  fiber_.emplace(world_.scheduler());
  fiber_->go([this] { run(); }, {.name = "comm server"});
}

// Ends the fiber; nothing uses this object then.
void Endpoint::end() noexcept {
  const Shield shield;
  calls_.send({.kind = TrainerCall::Kind::kStop});
  try {
    fiber_->wait();
  } catch (...) {  // it has failed the world
  }
  world_.remove_listener(notices_);
  end_->leave();
  sides_.clear();
  worker_.reset();
  server_.reset();
}

Trainer& Endpoint::trainer(const char* call) {
  require_alive();
  if (worker_ != nullptr && !trainer_has_left_) return worker_->trainer();
  throw std::logic_error("leat: ParameterServer::" + std::string(call) + ": rank " +
                         std::to_string(rank()) +
                         (worker_ != nullptr ? " has left, by serve()" : " is no worker"));
}

void Endpoint::serve() {
  require_alive();
  trainer_has_left_ = true;
  calls_.send({.kind = TrainerCall::Kind::kServe});
  if (server_ == nullptr) return;
  server_->await_end();
  require_alive();
}

ServerStats Endpoint::stats() const {
  ServerStats stats;
  if (server_ != nullptr) stats = server_->stats();
  if (worker_ != nullptr) worker_->add_to(stats);
  return stats;
}

int Endpoint::rank_of(int world_rank) const noexcept {
  return static_cast<int>(std::ranges::find(world_ranks_, world_rank) - world_ranks_.begin());
}

// ---- the fiber

void Endpoint::run() {
  const Shield shield;  // it ends by TrainerCall::kStop alone
  // An error of a device, say: all ranks are told, and the trainer.
  const auto guarded = [this](const auto& act) {
    try {
      act();
    } catch (const std::exception& error) {
      fail_by(world_, end_->world_rank(), error);
    }
  };
  const auto next_deadline = [this] {
    TimePoint due = TimePoint::max();
    if (world_.is_dead()) return due;
    for (const Side* const side : sides_) due = std::min(due, side->next_deadline());
    return due;
  };
  while (!is_stopping_ || under_way_ > 0) {
    guarded([&] {
      const auto on_call = [&](std::optional<TrainerCall> call) { handle(*call); };
      const auto on_notice = [&](std::optional<Notice> notice) { handle(*notice); };
      const auto on_finished = [&](std::optional<PieceTransfer*> one) {
        (*one)->side->finish(**one);
      };
      const TimePoint due = next_deadline();
      if (due == TimePoint::max()) {
        select(on_recv(calls_, on_call), on_recv(notices_, on_notice),
               on_recv(finished_, on_finished));
      } else {
        select(on_recv(calls_, on_call), on_recv(notices_, on_notice),
               on_recv(finished_, on_finished), on_timeout(due - world_.time(), [&] {
                 for (Side* const side : sides_) side->check_deadline(world_.time());
               }));
      }
      do {
        while (drain()) {
        }
        // What can travel at this instant is queued before a side chooses.
        if (world_.is_virtual()) {
          settle();
          while (drain()) {
          }
        }
        for (Side* const side : sides_) {
          if (!world_.is_dead()) side->act();
        }
        flush();
      } while (drain());  // pieces that ended within begin()
    });
    for (Side* const side : sides_) {
      if (world_.is_dead()) side->world_failed();
    }
  }
  guarded([&] {
    if (world_.is_dead()) return;
    for (Side* const side : sides_) side->leave();
    flush();
  });
}

// Handles all that is there. Returns whether there was anything.
bool Endpoint::drain() {
  bool any = false;
  for (std::optional<TrainerCall> call; calls_.try_recv(call) == ChannelStatus::ok; any = true) {
    handle(*call);
  }
  for (std::optional<Notice> notice; notices_.try_recv(notice) == ChannelStatus::ok; any = true) {
    handle(*notice);
  }
  for (std::optional<PieceTransfer*> one; finished_.try_recv(one) == ChannelStatus::ok;
       any = true) {
    (*one)->side->finish(**one);
  }
  return any;
}

void Endpoint::handle(const TrainerCall& call) {
  if (call.kind == TrainerCall::Kind::kStop) is_stopping_ = true;
  for (Side* const side : sides_) side->handle(call);
}

void Endpoint::handle(const Notice& notice) {
  if (world_.is_dead()) return;
  if (notice.kind == World::kAsked) {
    return world_.answer(notices_, [&](const Wait& asked, bool is_awaited) {
      Answer answer;
      for (Side* const side : sides_) side->add_waits(asked, is_awaited, answer);
      return answer;
    });
  }
  const bool for_server = notice.kind <= kLeave || notice.kind == World::kFailed;
  if (for_server && server_ != nullptr) server_->handle(notice);
  if (!for_server) worker_->handle(notice);
}

// Those to one rank share a message as far as they follow one another.
void Endpoint::flush() {
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

Failure Endpoint::failure_of(std::uint32_t tensor, const std::string& what) const {
  const std::string& name = plan_.parameters[tensor].name;
  return {.operation = "ParameterServer", .tensor = name, .what = "\"" + name + "\": " + what};
}

void Endpoint::fail(std::uint32_t tensor, int peer, bool is_mismatch,
                    const std::string& what) noexcept {
  Failure failure = failure_of(tensor, what);
  failure.peer = peer;
  failure.is_mismatch = is_mismatch;
  world_.fail(std::move(failure), server_ != nullptr);
}

// ---- pieces

CreditQueue::Entry Endpoint::entry_of(std::uint32_t piece) const {
  const ServerPlan::Piece& one = plan_.pieces[piece];
  // First come, first served; at one instant, the parameter that was declared last comes first.
  const bool is_fifo = options_.policy == Policy::kFifo;
  return {.since = is_fifo ? world_.time() : TimePoint(),
          .order = is_fifo ? ~one.tensor : one.tensor,
          .piece = piece,
          .bytes = one.bytes};
}

PieceTransfer& Endpoint::take(Side& side, bool is_push, std::uint32_t piece, int peer) {
  if (unused_ == nullptr) {
    transfers_.push_back(std::make_unique<PieceTransfer>());
    unused_ = transfers_.back().get();
    unused_->endpoint = this;
    unused_->index = static_cast<std::uint32_t>(transfers_.size() - 1);
  }
  PieceTransfer& transfer = *std::exchange(unused_, unused_->next);
  transfer.side = &side;
  transfer.is_push = is_push;
  transfer.piece = piece;
  transfer.peer = peer;
  transfer.next = nullptr;
  ++under_way_;
  return transfer;
}

void Endpoint::recycle(PieceTransfer& transfer) {
  transfer.next = unused_;
  unused_ = &transfer;
  --under_way_;
}

// Both sides give the piece the same key.
void Endpoint::begin(PieceTransfer& transfer, void* memory) {
  const bool sends = (transfer.side == worker_.get()) == transfer.is_push;
  const ServerPlan::Piece& piece = plan_.pieces[transfer.piece];
  transfer.operation = {
      .signature = {.kind = sends ? OperationKind::kSend : OperationKind::kRecv,
                    .dtype = DType::kFloat32,
                    .count = piece.bytes / sizeof(float),
                    .number = (std::uint64_t{transfer.piece} << 1) | (transfer.is_push ? 0U : 1U)},
      .peer = transfer.peer,
      .label = plan_.parameters[piece.tensor].name.c_str(),
      .in = sends ? memory : nullptr,
      .out = sends ? nullptr : memory,
      .finished = &Endpoint::finished,
      .owner = &transfer,
      .is_patient = true};
  end_->begin(transfer.operation);
}

// On any thread or fiber.
void Endpoint::finished(Operation& operation, const Failure* /*failure*/) noexcept {
  auto& transfer = *static_cast<PieceTransfer*>(operation.owner);
  const Channel<PieceTransfer*> finished =
      transfer.endpoint->finished_;                 // outlives the endpoint, which may end
  static_cast<void>(finished.try_send(&transfer));  // there is room
}

}  // namespace leat::comm
