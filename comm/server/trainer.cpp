#include "leat/comm/server/trainer.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "leat/comm/server/endpoint.h"

namespace leat::comm {

Trainer::Trainer(Endpoint& endpoint)
    : endpoint_(endpoint),
      sending_(std::make_unique<std::atomic<bool>[]>(endpoint.size())),
      fetching_(std::make_unique<std::atomic<bool>[]>(endpoint.size())),
      sent_(endpoint.size()),
      fetched_(endpoint.size()),
      events_(endpoint.world(), endpoint.transport()->world_rank(), endpoint.calls(),
              2 * endpoint.size() + 8, StreamCalls::Streams::kOfTrainer) {}

void Trainer::load_weights() {
  if (sent_.empty()) return;
  std::vector<std::size_t> all(sent_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (endpoint_.rank() == endpoint_.plan().workers.front()) {
    open(TrainerCall::Kind::kSend, all, nullptr).await();
  }
  open(TrainerCall::Kind::kFetch, all, nullptr).await();
}

void Trainer::begin_step(std::uint64_t samples) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48;  // the sum of all workers stays exact
  if (samples > kMost) {
    throw std::invalid_argument("leat: ParameterServer::begin_step: " + std::to_string(samples) +
                                " samples; at most 2^48");
  }
  const std::uint64_t last = step_;
  if (endpoint_.options().synchronous && last > 0) {
    const auto refuse = [&](const std::string& why) {
      throw std::logic_error("leat: ParameterServer::begin_step: " + why);
    };
    if (in_step_) {
      refuse("step " + std::to_string(last) + " has not ended; call send_barrier()");
    }
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      if (sent_[i] > fetched_[i]) {
        refuse("\"" + endpoint_.plan().parameters[i].name + "\" was sent in step " +
               std::to_string(sent_[i]) + " and not fetched since; call fetch_vars()");
      }
    }
    // No worker is two steps ahead of another.
    struct Waits {
      explicit Waits(std::atomic<bool>& its_flag) : flag(its_flag) { flag = true; }
      ~Waits() { flag = false; }
      std::atomic<bool>& flag;
    } const waits(waits_);
    while (last > 1 && done_.load(std::memory_order_acquire) < last - 1) {
      endpoint_.require_alive();
      done_bell_.wait();
    }
  }
  ++step_;
  samples_ = samples;
  in_step_ = true;
  if (!endpoint_.options().staleness.has_value()) return;
  // What was not sent in the steps that have ended does not come, and of one without samples none.
  const std::uint64_t ended = samples == 0 ? step_ : last;
  if (ended > 0) endpoint_.calls().send({.kind = TrainerCall::Kind::kEndedStep, .step = ended});
}

// One completion for what is done with all of the parameters. A send outside a step is the first
// worker's, of the weights.
Completion Trainer::open(TrainerCall::Kind kind, std::span<const std::size_t> indices,
                         const gpu::StreamRef* stream) {
  const bool sends = kind == TrainerCall::Kind::kSend || kind == TrainerCall::Kind::kSendBarrier;
  TrainerCall call{.kind = TrainerCall::Kind::kOpen,
                   .opens = kind,
                   .index = static_cast<std::uint32_t>(indices.size()),
                   .step = step_,
                   .samples = samples_};
  std::uint64_t count = 0;
  for (const std::size_t i : indices) {
    count += endpoint_.plan().cut.gradients[i].count();
    call.pieces += endpoint_.plan().cut.units[i].pieces;
  }
  const Transport& end = *endpoint_.transport();
  const CompletionState::Ref state = completions_->take();
  Operation& operation = CompletionState::open(
      state, endpoint_.transport(),
      {.signature = {.kind = sends ? OperationKind::kSend : OperationKind::kRecv,
                     .dtype = DType::kFloat32,
                     .count = count,
                     .number = ++calls_},
       .label =
           indices.empty() ? nullptr : endpoint_.plan().parameters[indices.front()].name.c_str(),
       .is_patient = true});
  Completion completion(state);
  if (!endpoint_.world().add(operation, end.world_rank(), end.context())) {
    endpoint_.world().finish(operation, &endpoint_.world().failure());
    return completion;
  }
  call.operation = &operation;
  endpoint_.calls().send(call);
  for (const std::size_t i : indices) {
    call.kind = kind;
    call.index = static_cast<std::uint32_t>(i);
    call.step = kind == TrainerCall::Kind::kFetch ? sent_[i] : step_;
    if (stream == nullptr || !events_.defer(*stream, call)) endpoint_.calls().send(call);
  }
  return completion;
}

Completion Trainer::send_vars(std::span<const std::size_t> indices, const gpu::StreamRef* stream) {
  require_free("send_vars", indices, sending_.get());
  for (const std::size_t i : indices) {
    const char* why = nullptr;
    if (!in_step_) {
      why = "outside a step; call begin_step() first";
    } else if (sent_[i] >= step_) {
      why = "it was sent in this step already";
    } else if (samples_ == 0) {
      why = "this step has no samples";
    } else {
      continue;
    }
    throw std::logic_error("leat: ParameterServer::send_vars(" + std::to_string(i) + "), \"" +
                           endpoint_.plan().parameters[i].name + "\": " + why);
  }
  for (const std::size_t i : indices) {
    sent_[i] = step_;
    sending_[i].store(true, std::memory_order_relaxed);
  }
  return open(TrainerCall::Kind::kSend, indices, stream);
}

Completion Trainer::send_barrier() {
  if (!endpoint_.options().synchronous || !in_step_) {
    throw std::logic_error(std::string("leat: ParameterServer::send_barrier: ") +
                           (endpoint_.options().synchronous
                                ? "no step has begun"
                                : "asynchronous servers have no barrier"));
  }
  in_step_ = false;
  for (std::size_t i = 0; i < sent_.size(); ++i) {  // what was not sent, others may have changed
    if (sent_[i] < step_) sent_[i] = fetched_[i] = step_;
  }
  return open(TrainerCall::Kind::kSendBarrier, {}, nullptr);
}

Completion Trainer::fetch_vars(std::span<const std::size_t> indices, const gpu::StreamRef* stream) {
  require_free("fetch_vars", indices, fetching_.get());
  for (const std::size_t i : indices) {
    fetched_[i] = sent_[i];
    fetching_[i].store(true, std::memory_order_relaxed);
  }
  return open(TrainerCall::Kind::kFetch, indices, stream);
}

Completion Trainer::fetch_barrier() { return open(TrainerCall::Kind::kFetchBarrier, {}, nullptr); }

void Trainer::require_free(const char* call, std::span<const std::size_t> indices,
                           const std::atomic<bool>* busy) const {
  for (std::size_t at = 0; at < indices.size(); ++at) {
    const std::size_t i = indices[at];
    if (i >= sent_.size()) {
      throw std::invalid_argument("leat: ParameterServer::" + std::string(call) + "(" +
                                  std::to_string(i) + "): there are " +
                                  std::to_string(sent_.size()) + " parameters");
    }
    const bool is_twice = std::ranges::find(indices.first(at), i) != indices.first(at).end();
    if (!is_twice && !busy[i].load(std::memory_order_acquire)) continue;
    throw std::logic_error(
        "leat: ParameterServer::" + std::string(call) + "(" + std::to_string(i) + "), \"" +
        endpoint_.plan().parameters[i].name + "\": " +
        (is_twice ? "it is named twice" : "an earlier one is under way; await its completion"));
  }
}

}  // namespace leat::comm
