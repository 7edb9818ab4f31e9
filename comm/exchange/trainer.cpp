// What the trainer calls.
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/comm/exchange/agreement.h"
#include "leat/comm/exchange/exchange.h"
#include "leat/csp/scheduler.h"
#include "leat/gpu/buffer.h"

namespace leat::comm {
namespace {

// How much later than rank 0 the other ranks give up, so that its message, which says for what the
// exchange waits, comes first.
constexpr Duration kGrace = std::chrono::milliseconds(250);

[[noreturn]] void refuse_call(const std::string& call, const std::string& why) {
  throw std::logic_error("leat: GradientExchange::" + call + ": " + why);
}

// The most pieces in flight: whole ones as the credit allows, and a shorter one of each unit.
std::uint64_t most_in_flight(const Plan& plan, const ExchangeOptions& options) {
  std::uint64_t whole = ~std::uint64_t{0};  // the fewest bytes of one
  for (const Unit& unit : plan.units) {
    if (unit.pieces > 1) whole = std::min(whole, unit.piece_bytes);
  }
  return std::min(plan.pieces, options.credit_bytes / whole + 1 + plan.units.size());
}

// A notice of every kind that a rank may not have read yet: orders of what is in flight, and
// others, which come once for each gradient and rank.
std::int64_t notices_under_way(const Plan& plan, const ExchangeOptions& options, int ranks) {
  return static_cast<std::int64_t>(most_in_flight(plan, options) +
                                   2 * static_cast<std::uint64_t>(ranks) *
                                       (plan.gradients.size() + 8));
}

// The gradients as each layer sees them; the last ones are exchanged.
std::vector<std::vector<Gradient>> declare(std::vector<Gradient> gradients,
                                           const std::vector<GradientLayer>& layers) {
  std::vector<std::vector<Gradient>> seen = {std::move(gradients)};
  for (const GradientLayer& layer : layers) {
    seen.push_back(seen.back());
    for (std::size_t i = 0; i < seen.back().size() && layer.declare; ++i) {
      seen.back()[i] = layer.declare(i, seen[seen.size() - 2][i]);
    }
  }
  return seen;
}

}  // namespace

Exchange::Exchange(const Communicator& communicator, std::vector<Gradient> gradients,
                   ExchangeOptions options)
    : options_(std::move(options)),
      seen_(declare(std::move(gradients), options_.layers)),
      plan_(seen_.back(), options_),
      control_(communicator.duplicate()),
      end_(control_.transport()->sibling(0x6C65617450696563U)),
      world_(end_->world()),
      leads_(end_->rank() == 0),
      on_device_(exchanges_on(*end_, options_.device)),
      is_staged_(
          world_.options().link.moves_data &&
          (options_.policy == Policy::kBucketed || !(on_device_ || cpu_reaches(options_.device)))),
      calls_(static_cast<std::int64_t>(4 * plan_.gradients.size() + 64), "comm calls"),
      notices_(notices_under_way(plan_, options_, end_->size()), "comm notices"),
      finished_(static_cast<std::int64_t>(plan_.pieces), "comm pieces"),
      meter_(plan_.gradients.size()),
      gradients_(plan_.gradients.size()),
      mine_(plan_.gradients.size()),
      orders_(plan_.pieces) {
  world_ranks_ = agree(control_, plan_, options_);
  try {
    start();
  } catch (...) {
    world_.remove_listener(notices_);
    world_.fail({.peer = end_->world_rank(),
                 .operation = "GradientExchange",
                 .what = "rank " + std::to_string(end_->world_rank()) +
                         " could not make its exchange; it has thrown why"});
    throw;
  }
}

void Exchange::start() {
  const bool on_device = !cpu_reaches(options_.device);
  for (TrainerGradient& one : gradients_) {
    if (on_device) one.handed.emplace(*options_.device);
  }
  for (std::uint32_t unit = 0; unit < plan_.units.size(); ++unit) {
    for (std::uint32_t piece = 0; piece < plan_.units[unit].pieces; ++piece) {
      pieces_.push_back({.exchange = this, .order = {unit, piece}, .operation = {}});
    }
  }
  outgoing_.reserve(notices_.capacity());
  if (leads_) leader_.emplace(plan_, options_, end_->size());
  std::size_t slots = 0;
  if (is_staged_ && plan_.largest_piece > 0) {
    slots = 1 + std::min<std::uint64_t>(
                    std::max<std::uint64_t>(1, options_.credit_bytes / plan_.largest_piece),
                    plan_.pieces);
    staging_.emplace(on_device ? options_.device : std::nullopt, slots, plan_.largest_piece,
                     on_device_);
  }
  const int rank = end_->world_rank();
  trainer_events_.emplace(world_, rank, calls_, gradients_.size() + 8,
                          StreamCalls::Streams::kOfTrainer);
  staging_events_.emplace(world_, rank, calls_, slots + 8, StreamCalls::Streams::kOfExchange);
  if (options_.trace != nullptr) {
    std::vector<std::string> names;
    for (const Gradient& one : plan_.gradients) names.push_back(one.name);
    options_.trace->add_rank(rank, std::move(names), world_.time());
  }
  // A piece is in flight until it has ended on rank 0; each rank may be about to end another one.
  end_->reserve(most_in_flight(plan_, options_) + static_cast<std::size_t>(end_->size()));
  end_->listen(notices_);
  world_.add_listener(rank, end_->context(), notices_);
  fiber_.emplace(world_.scheduler());
  fiber_->go([this] { run(); }, {.name = "comm exchange"});
}

Exchange::~Exchange() {
  const Shield shield;
  const auto open = std::ranges::find_if(
      gradients_, [](const TrainerGradient& one) { return one.step > one.result_step.load(); });
  if (in_backward_ || open != gradients_.end()) {
    const auto index = static_cast<std::size_t>(open - gradients_.begin());
    const int rank = end_->world_rank();
    world_.fail({.is_mismatch = true,
                 .peer = rank,
                 .operation = "step " + std::to_string(step_),
                 .tensor = open != gradients_.end() ? plan_.gradients[index].name : "",
                 .what = "rank " + std::to_string(rank) + " destroyed its exchange in step " +
                         std::to_string(step_) + ", " +
                         (in_backward_ ? "in its backward" : "before all results had come") +
                         "; call end_backward() and await_all() before"});
  }
  calls_.send({.kind = TrainerCall::Kind::kStop});
  try {
    fiber_->wait();
  } catch (...) {  // it has failed the world
  }
  world_.remove_listener(notices_);
  end_->leave();
  trainer_events_.reset();
  staging_events_.reset();
  staging_.reset();  // waits for copies that a failed device may have left
}

void Exchange::require_stream(const char* call, const gpu::StreamRef* stream) const {
  if (stream != nullptr && stream->is_capturing()) {
    refuse_call(call,
                "the stream is being captured into a CUDA graph, whose launches would exchange "
                "nothing; call it outside the capture");
  }
  if (stream != nullptr || options_.layers.empty()) return;
  refuse_call(call, "give a stream, on which the layers work");
}

Exchange::TrainerGradient& Exchange::gradient(std::size_t index, const char* call) {
  if (index < gradients_.size()) return gradients_[index];
  throw std::invalid_argument("leat: GradientExchange::" + std::string(call) + "(" +
                              std::to_string(index) + "): there are " +
                              std::to_string(gradients_.size()) + " gradients");
}

std::string Exchange::call_of(const char* call, std::size_t index) const {
  return std::string(call) + "(" + std::to_string(index) + "), \"" + plan_.gradients[index].name +
         '"';
}

void Exchange::begin_step(std::uint64_t samples) {
  require_alive();
  if (in_backward_) {
    refuse_call("begin_step", "the backward of step " + std::to_string(step_) +
                                  " has not ended; call end_backward()");
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48;  // the sum of all ranks stays exact
  if (samples > kMost) {
    throw std::invalid_argument("leat: GradientExchange::begin_step: " + std::to_string(samples) +
                                " samples; at most 2^48");
  }
  ++step_;
  samples_ = samples;
  in_backward_ = true;
  meter_.begin_step(world_.time());
  if (samples == 0 && std::ranges::all_of(gradients_, &TrainerGradient::awaited)) give_empty();
}

void Exchange::ready(std::size_t index, const gpu::StreamRef* stream) {
  require_stream("ready", stream);
  require_alive();
  const TrainerGradient& one = gradient(index, "ready");
  const auto refuse = [&](const std::string& why) { refuse_call(call_of("ready", index), why); };
  if (step_ > 0 && samples_ == 0) {
    refuse("this rank has no samples in step " + std::to_string(step_));
  }
  if (!in_backward_) refuse("outside a backward; call begin_step() first");
  if (one.step == step_) refuse("it is ready in step " + std::to_string(step_) + " already");
  if (!one.awaited) refuse("the result of step " + std::to_string(one.step) + " was not awaited");
  if (stream != nullptr && !options_.device.has_value() &&
      !stream->device().capabilities().device_memory_is_host_memory) {
    throw std::invalid_argument("leat: GradientExchange: the CPU does not reach the memory of " +
                                stream->device().name() + "; set ExchangeOptions::device");
  }
  for (std::size_t i = 0; stream != nullptr && i < options_.layers.size(); ++i) {
    const GradientLayer& layer = options_.layers[i];
    if (layer.before) layer.before(index, seen_[i][index], seen_[i + 1][index], *stream);
  }
  if (options_.trace != nullptr) {
    trace(Trace::Kind::kReady, static_cast<std::uint32_t>(index), step_, world_.time());
  }
  give(static_cast<std::uint32_t>(index), true, stream);
}

// The call leaves once the work on the stream has run.
void Exchange::give(std::uint32_t index, bool contributes, const gpu::StreamRef* stream) {
  gradients_[index].bell.try_wait();  // forgets the ring of the step before
  const TrainerCall call{.kind = TrainerCall::Kind::kReady,
                         .given = contributes,
                         .index = index,
                         .step = step_,
                         .samples = samples_};
  const bool is_deferred = stream != nullptr && trainer_events_->defer(*stream, call);
  meter_.add_computed(1, world_.time());
  if (!is_deferred) calls_.send(call);
  gradients_[index].step = step_;
  gradients_[index].awaited = false;
}

void Exchange::give_empty() {
  for (std::uint32_t i = 0; i < gradients_.size(); ++i) {
    if (gradients_[i].step == step_) continue;
    // The trainer may still use the last result on that stream.
    const std::optional<gpu::StreamRef> stream = gradients_[i].last_stream;
    give(i, false, stream.has_value() ? &*stream : nullptr);
  }
  in_backward_ = false;
  meter_.end_backward();
}

bool Exchange::is_idle() const noexcept {
  return !in_backward_ && std::ranges::all_of(gradients_, &TrainerGradient::awaited);
}

void Exchange::wait_for_streams() const {
  for (const TrainerGradient& one : gradients_) {
    if (one.last_stream.has_value()) one.last_stream->sync();
  }
}

void Exchange::end_backward() {
  require_alive();
  if (!in_backward_) {
    if (samples_ == 0 && step_ > 0) return;  // it ended with begin_step()
    refuse_call("end_backward", "no backward has begun");
  }
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (gradients_[i].step == step_ || gradients_[i].awaited) continue;
    refuse_call("end_backward", "the result of gradient " + std::to_string(i) + " (\"" +
                                    plan_.gradients[i].name + "\") of step " +
                                    std::to_string(gradients_[i].step) + " was not awaited");
  }
  give_empty();
}

bool Exchange::await(std::size_t index, const gpu::StreamRef* stream) {
  require_stream("await", stream);
  require_alive();
  TrainerGradient& one = gradient(index, "await");
  if (in_backward_ && one.step < step_ && one.awaited) {
    refuse_call(call_of("await", index), "it is not ready in step " + std::to_string(step_) +
                                             ", and the backward has not ended");
  }
  if (one.awaited) return false;
  const TimePoint began = options_.trace != nullptr ? world_.time() : TimePoint();
  if (leads_ && options_.urgency == Urgency::kAwaited) {
    calls_.send({.kind = TrainerCall::Kind::kAwaited, .index = static_cast<std::uint32_t>(index)});
  }
  if (options_.synchronous) {
    for (std::uint32_t other = 0; other < gradients_.size(); ++other) {
      if (!gradients_[other].awaited) wait(other);
    }
  } else {
    wait(static_cast<std::uint32_t>(index));
  }
  one.awaited = true;
  if (options_.trace != nullptr) {
    trace(Trace::Kind::kAwait, static_cast<std::uint32_t>(index), one.step, began);
  }
  if (stream != nullptr) {
    if (one.last_stream != *stream) one.last_stream = *stream;
    if (one.handed.has_value()) stream->wait(*one.handed);
  } else if (one.handed.has_value()) {
    one.handed->await();
  }
  if (one.is_empty || plan_.gradients[index].count() == 0) return false;
  for (std::size_t i = options_.layers.size(); stream != nullptr && i-- > 0;) {
    const GradientLayer& layer = options_.layers[i];
    if (layer.after) layer.after(index, seen_[i][index], seen_[i + 1][index], *stream);
  }
  return true;
}

void Exchange::await_all(const gpu::StreamRef* stream) {
  require_stream("await_all", stream);
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (!gradients_[i].awaited) await(i, stream);
  }
}

void Exchange::wait(std::uint32_t index) {
  TrainerGradient& one = gradients_[index];
  if (one.result_step.load(std::memory_order_acquire) >= one.step) return;
  const TimePoint began = world_.time();
  meter_.begin_wait(began);
  trainer_waits_ = true;
  struct EndOfWait {
    ~EndOfWait() {
      self.trainer_waits_ = false;
      self.meter_.end_wait(index, began, self.world_.time());
    }
    Exchange& self;
    std::uint32_t index;
    TimePoint began;
  } const end_of_wait{*this, index, began};
  for (bool has_accused = false; one.result_step.load(std::memory_order_acquire) < one.step;) {
    require_alive();
    // As long as pieces come, nobody is late.
    const TimePoint heard = std::max(began, heard_.load(std::memory_order_relaxed));
    TimePoint due = Deadline::after(heard, world_.options().deadline).at();
    due = has_accused ? TimePoint::max() : Deadline::after(due, kGrace).at();
    const bool rang = one.bell.wait_until(due);
    if (rang || heard_.load(std::memory_order_relaxed) > heard) continue;
    has_accused = true;
    world_.accuse(
        {.failure = failure_of(index, one.step,
                               " has no result by the deadline, and nothing was heard from rank " +
                                   std::to_string(leader().rank) +
                                   ", which leads; perhaps no rank has called ready() or "
                                   "end_backward() for all that is sent with it"),
         .missing = {leader()}});
  }
}

void Exchange::trace(Trace::Kind kind, std::uint32_t tensor, std::uint64_t step, TimePoint begin,
                     std::uint32_t piece) {
  options_.trace->add({.kind = kind,
                       .rank = end_->world_rank(),
                       .tensor = tensor,
                       .piece = piece,
                       .step = step,
                       .begin = begin,
                       .end = world_.time()});
}

void Exchange::broadcast(std::span<const Gradient> tensors, int root) {
  require_alive();
  std::size_t largest = 0;
  for (const Gradient& one : tensors) {
    require_whole_elements(one);
    largest = std::max(largest, one.data.size());
  }
  agree_on_tensors(control_, world_ranks_, tensors, "tensor");
  std::optional<gpu::PinnedBuffer> pinned;  // if the CPU does not reach the tensors
  std::optional<gpu::Stream> stream;
  if (!on_device_ && !cpu_reaches(options_.device) && world_.options().link.moves_data) {
    pinned.emplace(*options_.device, largest);
    stream.emplace(*options_.device);
  }
  for (const Gradient& one : tensors) {
    const gpu::PinnedSpan staged = pinned ? pinned->subspan(0, one.data.size()) : gpu::PinnedSpan();
    if (pinned && end_->rank() == root) copy_async(*stream, staged, one.data);
    if (pinned) stream->sync();
    std::byte* const data = pinned ? staged.data() : one.data.data();
    Elements elements(data, one.count(), one.dtype);
    elements.on_device = on_device_;
    control_.broadcast(elements, root).await();
    if (pinned && end_->rank() != root) copy_async(*stream, one.data, staged);
    if (pinned) stream->sync();
  }
}

}  // namespace leat::comm
