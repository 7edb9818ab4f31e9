// What the trainer calls.
#include "leat/comm/server/party.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/comm/exchange/agreement.h"
#include "leat/comm/server/update.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/random.h"

namespace leat::comm {
namespace {

std::shared_ptr<Transport> end_of_pieces(const Communicator& control) {
  std::vector<int> all(static_cast<std::size_t>(control.size()));
  std::iota(all.begin(), all.end(), 0);
  const std::shared_ptr<Transport>& end = control.transport();
  return end->subset(mix(end->context() ^ 0x6C65617453657276U), all);
}

std::string in_words(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += ' ' + std::to_string(rank);
  return text;
}

std::string in_words(const Optimizer& optimizer) {
  const auto text = [](const char* name, std::initializer_list<float> values) {
    std::string all = name;
    for (const float value : values) {
      std::array<char, 32> digits{};  // as many as tell it from any other value
      all +=
          ' ' + std::string(digits.data(), std::to_chars(digits.data(), digits.end(), value).ptr);
    }
    return all;
  };
  if (const auto* const sgd = std::get_if<Sgd>(&optimizer)) return text("Sgd", {sgd->rate});
  if (const auto* const one = std::get_if<Momentum>(&optimizer)) {
    return text("Momentum", {one->rate, one->momentum});
  }
  const Adam& adam = std::get<Adam>(optimizer);
  return text("Adam", {adam.rate, adam.beta1, adam.beta2, adam.epsilon});
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

Party::Party(const Communicator& communicator, std::vector<Parameter> parameters,
             ServerOptions options)
    : options_(std::move(options)),
      plan_(std::move(parameters), options_, communicator.size()),
      control_(communicator.duplicate()),
      end_(end_of_pieces(control_)),
      world_(end_->world()),
      rank_(end_->rank()),
      works_(ServerPlan::has(plan_.workers, rank_)),
      serves_(ServerPlan::has(plan_.servers, rank_)),
      calls_(static_cast<std::int64_t>(4 * plan_.parameters.size() + 64), "comm calls"),
      notices_(notices_under_way(plan_), "comm notices"),
      finished_(transfers_under_way(plan_), "comm pieces"),
      sending_(std::make_unique<std::atomic<bool>[]>(plan_.parameters.size())),
      fetching_(std::make_unique<std::atomic<bool>[]>(plan_.parameters.size())),
      trainer_sent_(plan_.parameters.size()),
      trainer_fetched_(plan_.parameters.size()) {
  std::vector<std::string> texts = {
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
    load_weights();
  } catch (...) {
    end();
    throw;
  }
}

Party::~Party() { end(); }

void Party::start() {
  const bool is_staged =
      works_ && world_.options().link.moves_data && !cpu_reaches(options_.device);
  std::size_t slots = 0;
  if (works_) {
    mine_.resize(size());
    pushes_.emplace(plan_, options_.policy, options_.credit_bytes);
    for (const ServerPlan::Piece& piece : plan_.pieces) {
      const bool is_new = std::ranges::find(peers_, piece.owner, &Peer::rank) == peers_.end();
      if (is_new) peers_.push_back({.rank = piece.owner});
    }
    if (peers_.empty()) done_ = done_so_far();  // no server has anything of it to do
  }
  if (is_staged && plan_.cut.largest_piece > 0) {
    slots = 2 * (1 + std::min<std::uint64_t>(options_.credit_bytes / plan_.cut.largest_piece,
                                             plan_.pieces.size()));
    staging_.emplace(options_.device, slots, plan_.cut.largest_piece);
  }
  if (serves_) make_owned();
  const int rank = end_->world_rank();
  trainer_events_.emplace(world_, rank, calls_, 2 * size() + 8, StreamCalls::Streams::kOfTrainer);
  staging_events_.emplace(world_, rank, calls_, slots + 8, StreamCalls::Streams::kOfExchange);
  end_->listen(notices_);
  world_.add_listener(rank, end_->context(), notices_);
  fiber_.emplace(world_.scheduler());
  fiber_->go([this] { run(); }, {.name = "comm server"});
}

// The first worker's weights go to the servers, and from there to all workers.
void Party::load_weights() {
  if (!works_ || size() == 0) return;
  std::vector<std::size_t> all(size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (rank_ == plan_.workers.front()) open(TrainerCall::Kind::kSend, all, nullptr).await();
  open(TrainerCall::Kind::kFetch, all, nullptr).await();
}

// Ends the fiber; nothing uses this object then.
void Party::end() noexcept {
  const Shield shield;
  calls_.send({.kind = TrainerCall::Kind::kStop});
  try {
    fiber_->wait();
  } catch (...) {  // it has failed the world
  }
  world_.remove_listener(notices_);
  end_->leave();
  trainer_events_.reset();
  staging_events_.reset();
  staging_.reset();
}

void Party::require_worker(const char* call) const {
  require_alive();
  if (works_ && !trainer_has_left_) return;
  throw std::logic_error("leat: ParameterServer::" + std::string(call) + ": rank " +
                         std::to_string(rank_) +
                         (works_ ? " has left, by serve()" : " is no worker"));
}

void Party::begin_step(std::uint64_t samples) {
  require_worker("begin_step");
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48;  // the sum of all workers stays exact
  if (samples > kMost) {
    throw std::invalid_argument("leat: ParameterServer::begin_step: " + std::to_string(samples) +
                                " samples; at most 2^48");
  }
  const std::uint64_t last = trainer_step_;
  if (options_.synchronous && last > 0) {
    const auto refuse = [&](const std::string& why) {
      throw std::logic_error("leat: ParameterServer::begin_step: " + why);
    };
    if (trainer_in_step_) {
      refuse("step " + std::to_string(last) + " has not ended; call send_barrier()");
    }
    for (std::size_t i = 0; i < size(); ++i) {
      if (trainer_sent_[i] > trainer_fetched_[i]) {
        refuse("\"" + plan_.parameters[i].name + "\" was sent in step " +
               std::to_string(trainer_sent_[i]) + " and not fetched since; call fetch_vars()");
      }
    }
    // No worker is two steps ahead of another.
    struct Waits {
      explicit Waits(std::atomic<bool>& its_flag) : flag(its_flag) { flag = true; }
      ~Waits() { flag = false; }
      std::atomic<bool>& flag;
    } const waits(trainer_waits_);
    while (last > 1 && done_.load(std::memory_order_acquire) < last - 1) {
      require_alive();
      done_bell_.wait();
    }
  }
  ++trainer_step_;
  trainer_samples_ = samples;
  trainer_in_step_ = true;
  if (!options_.staleness.has_value()) return;
  // What was not sent in the steps that have ended does not come, and of one without samples none.
  const std::uint64_t ended = samples == 0 ? trainer_step_ : last;
  if (ended > 0) calls_.send({.kind = TrainerCall::Kind::kEndedStep, .step = ended});
}

// One completion for what is done with all of the parameters. A send outside a step is the first
// worker's, of the weights.
Completion Party::open(TrainerCall::Kind kind, std::span<const std::size_t> indices,
                       const gpu::StreamRef* stream) {
  const bool sends = kind == TrainerCall::Kind::kSend || kind == TrainerCall::Kind::kSendBarrier;
  TrainerCall call{.kind = TrainerCall::Kind::kOpen,
                   .opens = kind,
                   .index = static_cast<std::uint32_t>(indices.size()),
                   .step = trainer_step_,
                   .samples = trainer_samples_};
  std::uint64_t count = 0;
  for (const std::size_t i : indices) {
    count += plan_.cut.gradients[i].count();
    call.pieces += plan_.cut.units[i].pieces;
  }
  const CompletionState::Ref state = completions_->take();
  Operation& operation = CompletionState::open(
      state, end_,
      {.signature = {.kind = sends ? OperationKind::kSend : OperationKind::kRecv,
                     .dtype = DType::kFloat32,
                     .count = count,
                     .number = ++trainer_calls_},
       .label = indices.empty() ? nullptr : plan_.parameters[indices.front()].name.c_str(),
       .is_patient = true});
  Completion completion(state);
  if (!world_.add(operation, end_->world_rank(), end_->context())) {
    world_.finish(operation, &world_.failure());
    return completion;
  }
  call.operation = &operation;
  calls_.send(call);
  for (const std::size_t i : indices) {
    call.kind = kind;
    call.index = static_cast<std::uint32_t>(i);
    call.step = kind == TrainerCall::Kind::kFetch ? trainer_sent_[i] : trainer_step_;
    if (stream == nullptr || !trainer_events_->defer(*stream, call)) calls_.send(call);
  }
  return completion;
}

Completion Party::send_vars(std::span<const std::size_t> indices, const gpu::StreamRef* stream) {
  require_worker("send_vars");
  require_free("send_vars", indices, sending_.get());
  for (const std::size_t i : indices) {
    const char* why = nullptr;
    if (!trainer_in_step_) {
      why = "outside a step; call begin_step() first";
    } else if (trainer_sent_[i] >= trainer_step_) {
      why = "it was sent in this step already";
    } else if (trainer_samples_ == 0) {
      why = "this step has no samples";
    } else {
      continue;
    }
    throw std::logic_error("leat: ParameterServer::send_vars(" + std::to_string(i) + "), \"" +
                           plan_.parameters[i].name + "\": " + why);
  }
  for (const std::size_t i : indices) {
    trainer_sent_[i] = trainer_step_;
    sending_[i].store(true, std::memory_order_relaxed);
  }
  return open(TrainerCall::Kind::kSend, indices, stream);
}

Completion Party::send_barrier() {
  require_worker("send_barrier");
  if (!options_.synchronous || !trainer_in_step_) {
    throw std::logic_error(
        std::string("leat: ParameterServer::send_barrier: ") +
        (options_.synchronous ? "no step has begun" : "asynchronous servers have no barrier"));
  }
  trainer_in_step_ = false;
  for (std::size_t i = 0; i < size(); ++i) {  // what was not sent, others may have changed
    if (trainer_sent_[i] < trainer_step_) trainer_sent_[i] = trainer_fetched_[i] = trainer_step_;
  }
  return open(TrainerCall::Kind::kSendBarrier, {}, nullptr);
}

Completion Party::fetch_vars(std::span<const std::size_t> indices, const gpu::StreamRef* stream) {
  require_worker("fetch_vars");
  require_free("fetch_vars", indices, fetching_.get());
  for (const std::size_t i : indices) {
    trainer_fetched_[i] = trainer_sent_[i];
    fetching_[i].store(true, std::memory_order_relaxed);
  }
  return open(TrainerCall::Kind::kFetch, indices, stream);
}

Completion Party::fetch_barrier() {
  require_worker("fetch_barrier");
  return open(TrainerCall::Kind::kFetchBarrier, {}, nullptr);
}

void Party::require_free(const char* call, std::span<const std::size_t> indices,
                         const std::atomic<bool>* busy) const {
  for (std::size_t at = 0; at < indices.size(); ++at) {
    const std::size_t i = indices[at];
    if (i >= size()) {
      throw std::invalid_argument("leat: ParameterServer::" + std::string(call) + "(" +
                                  std::to_string(i) + "): there are " + std::to_string(size()) +
                                  " parameters");
    }
    const bool is_twice = std::ranges::find(indices.first(at), i) != indices.first(at).end();
    if (!is_twice && !busy[i].load(std::memory_order_acquire)) continue;
    throw std::logic_error(
        "leat: ParameterServer::" + std::string(call) + "(" + std::to_string(i) + "), \"" +
        plan_.parameters[i].name + "\": " +
        (is_twice ? "it is named twice" : "an earlier one is under way; await its completion"));
  }
}

void Party::serve() {
  require_alive();
  trainer_has_left_ = true;
  calls_.send({.kind = TrainerCall::Kind::kServe});
  if (!serves_) return;
  served_bell_.wait();
  served_bell_.ring();  // for a second call
  require_alive();
}

ServerStats Party::stats() const {
  const SpinLockGuard guard(stats_lock_);
  return stats_;
}

}  // namespace leat::comm
