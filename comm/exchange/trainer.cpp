// What the trainer calls.
#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "leat/comm/exchange/exchange.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/random.h"
#include "leat/gpu/buffer.h"

namespace leat::comm {
namespace {

// How much later than rank 0 the other ranks give up, so that its message, which knows who is late,
// comes first.
constexpr Duration kGrace = std::chrono::milliseconds(500);

std::size_t calls_under_way(const Plan& plan) { return 4 * plan.gradients.size() + 64; }

// Orders that a rank has not read yet are in flight; reports come once for each gradient.
std::int64_t notices_under_way(const Plan& plan, const ExchangeOptions& options, int ranks) {
  const std::uint64_t in_flight =
      std::min<std::uint64_t>(plan.pieces, options.credit_bytes + plan.units.size());
  return static_cast<std::int64_t>(in_flight + 2 * static_cast<std::uint64_t>(ranks) *
                                                   (plan.gradients.size() + 8));
}

bool cpu_reaches(const std::optional<gpu::Device>& device) {
  return !device.has_value() || device->capabilities().device_memory_is_host_memory;
}

std::int64_t hash(std::string_view text) {
  std::uint64_t value = text.size();
  for (const char c : text) value = mix(value * 0x100000001B3U + static_cast<unsigned char>(c));
  return static_cast<std::int64_t>(value);
}

std::shared_ptr<Transport> end_of_pieces(const Transport& control, Transport& end) {
  std::vector<int> all(static_cast<std::size_t>(control.size()));
  for (int rank = 0; rank < control.size(); ++rank) all[static_cast<std::size_t>(rank)] = rank;
  return end.subset(mix(control.context() ^ 0x6C65617450696563U), all);
}

}  // namespace

Exchange::Exchange(const Communicator& communicator, std::vector<Gradient> gradients,
                   ExchangeOptions options)
    : options_(std::move(options)),
      plan_(std::move(gradients), options_),
      control_(communicator.duplicate()),
      end_(end_of_pieces(*control_.transport(), *control_.transport())),
      world_(end_->world()),
      leads_(end_->rank() == 0),
      is_staged_(world_.options().link.moves_data &&
                 (options_.policy == Policy::kBucketed || !cpu_reaches(options_.device))),
      results_(plan_.gradients.size()),
      calls_(static_cast<std::int64_t>(calls_under_way(plan_)), "comm calls"),
      notices_(notices_under_way(plan_, options_, end_->size()), "comm notices"),
      given_(plan_.gradients.size()),
      waited_(plan_.gradients.size()),
      mine_(plan_.gradients.size()) {
  agree();
  const bool on_device = !cpu_reaches(options_.device);
  for (Result& one : results_) {
    // Peers end the trainer's wait.
    one.bell.core().get()->expect_only(nullptr);
    if (on_device) one.handed.emplace(*options_.device);
  }
  if (leads_) leader_.emplace(plan_, options_, end_->size());
  std::size_t slots = 0;
  if (is_staged_ && plan_.largest_piece > 0) {
    slots = 1 + std::min<std::uint64_t>(
                    std::max<std::uint64_t>(1, options_.credit_bytes / plan_.largest_piece),
                    plan_.pieces);
    staging_.emplace(on_device ? options_.device : std::nullopt, slots, plan_.largest_piece);
  }
  event_fibers_.emplace(world_.scheduler());
  const std::size_t most = plan_.gradients.size() + slots + 8;
  trainer_events_.emplace(world_, *event_fibers_, calls_, most);
  staging_events_.emplace(world_, *event_fibers_, calls_, most);
  end_->listen(notices_);
  world_.add_listener(notices_);
  fiber_.emplace(world_.scheduler());
  fiber_->go([this] { run(); }, {.name = "comm exchange"});
}

// All ranks gather what must be equal, and look at all of it, so that all find the same difference.
void Exchange::agree() {
  const auto ranks = static_cast<std::size_t>(control_.size());
  std::vector<std::int64_t> mine = {static_cast<std::int64_t>(options_.policy),
                                    static_cast<std::int64_t>(options_.urgency),
                                    static_cast<std::int64_t>(options_.weights),
                                    options_.synchronous ? 1 : 0,
                                    static_cast<std::int64_t>(options_.partition_bytes),
                                    static_cast<std::int64_t>(options_.credit_bytes),
                                    0,
                                    static_cast<std::int64_t>(plan_.gradients.size())};
  constexpr std::array<const char*, 8> kWhat = {
      "policy",          "urgency",      "weights",      "synchronous",
      "partition_bytes", "credit_bytes", "bucket_bytes", "the number of gradients"};
  for (const std::size_t limit : options_.bucket_bytes) {
    mine[6] = static_cast<std::int64_t>(
        mix(static_cast<std::uint64_t>(mine[6]) * 31 + static_cast<std::uint64_t>(limit)));
  }
  const auto compare = [&](const auto& describe) {
    std::vector<std::int64_t> all(ranks * mine.size());
    control_.all_gather(mine, all).await();
    for (std::size_t i = 0; i < mine.size(); ++i) {
      for (std::size_t rank = 1; rank < ranks; ++rank) {
        if (all[rank * mine.size() + i] == all[i]) continue;
        const auto [what, tensor] = describe(i, all[i], all[rank * mine.size() + i], rank);
        world_.fail({.is_mismatch = true,
                     .peer = static_cast<int>(rank),
                     .operation = "GradientExchange",
                     .tensor = tensor,
                     .what = "the exchanges of the ranks differ: " + what});
        require_alive();
      }
    }
  };
  compare([&](std::size_t i, std::int64_t first, std::int64_t other, std::size_t rank) {
    std::string what = std::string(kWhat[i]) + " of rank 0 and rank " + std::to_string(rank);
    if (i != 6) what += " are " + std::to_string(first) + " and " + std::to_string(other);
    return std::pair(what, std::string());
  });
  mine.clear();
  for (const Gradient& one : plan_.gradients) {
    mine.insert(mine.end(), {hash(one.name), static_cast<std::int64_t>(one.dtype),
                             static_cast<std::int64_t>(one.count())});
  }
  if (mine.empty()) return;
  compare([&](std::size_t i, std::int64_t first, std::int64_t other, std::size_t rank) {
    const std::string& name = plan_.gradients[i / 3].name;
    std::string what =
        "gradient " + std::to_string(i / 3) + " (\"" + name + "\" on this rank) has ";
    if (i % 3 == 0) what += "other names on rank 0 and rank " + std::to_string(rank);
    if (i % 3 == 1) {
      what += std::string("type ") + gpu::to_string(static_cast<DType>(first)) +
              " on rank 0, and " + gpu::to_string(static_cast<DType>(other)) + " on rank " +
              std::to_string(rank);
    }
    if (i % 3 == 2) {
      what += std::to_string(first) + " elements on rank 0, and " + std::to_string(other) +
              " on rank " + std::to_string(rank);
    }
    return std::pair(what, name);
  });
}

Exchange::~Exchange() {
  const Shield shield;
  const auto open = std::ranges::find_if(given_, [&](const Given& one) {
    return one.step > results_[static_cast<std::size_t>(&one - given_.data())].step.load();
  });
  if (in_backward_ || open != given_.end()) {
    const auto index = static_cast<std::size_t>(open - given_.begin());
    const int rank = end_->world_rank();
    world_.fail({.is_mismatch = true,
                 .peer = rank,
                 .operation = "step " + std::to_string(step_),
                 .tensor = open != given_.end() ? plan_.gradients[index].name : "",
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
  event_fibers_.reset();
}

Exchange::Given& Exchange::given(std::size_t index, const char* call) {
  if (index < given_.size()) return given_[index];
  throw std::invalid_argument("leat: GradientExchange::" + std::string(call) + "(" +
                              std::to_string(index) + "): there are " +
                              std::to_string(given_.size()) + " gradients");
}

void Exchange::begin_step(std::uint64_t samples) {
  require_alive();
  if (in_backward_) {
    throw std::logic_error("leat: GradientExchange::begin_step: the backward of step " +
                           std::to_string(step_) + " has not ended; call end_backward()");
  }
  ++step_;
  samples_ = samples;
  in_backward_ = true;
  {
    const TimePoint now = world_.time();
    const SpinLockGuard guard(stats_lock_);
    if (!began_.has_value()) began_ = now;
  }
  if (samples == 0 && std::ranges::all_of(given_, &Given::awaited)) give_empty();
}

void Exchange::check_ready(std::size_t index) {
  require_alive();
  const Given& one = given(index, "ready");
  const auto refuse = [&](const std::string& why) {
    throw std::logic_error("leat: GradientExchange::ready(" + std::to_string(index) + "), \"" +
                           plan_.gradients[index].name + "\": " + why);
  };
  if (!in_backward_) refuse("outside a backward; call begin_step() first");
  if (samples_ == 0) refuse("this rank has no samples in step " + std::to_string(step_));
  if (one.step == step_) refuse("it is ready in step " + std::to_string(step_) + " already");
  if (!one.awaited) refuse("the result of step " + std::to_string(one.step) + " was not awaited");
}

void Exchange::ready(std::size_t index, const gpu::StreamRef* stream) {
  check_ready(index);
  give(static_cast<std::uint32_t>(index), true, stream);
}

// The call leaves once the work on the stream has run.
void Exchange::give(std::uint32_t index, bool contributes, const gpu::StreamRef* stream) {
  Given& one = given_[index];
  one.step = step_;
  one.awaited = false;
  std::optional<char> old;  // of the step before
  static_cast<void>(results_[index].bell.try_recv(old));
  const TrainerCall call{.kind = TrainerCall::Kind::kReady,
                         .given = contributes,
                         .index = index,
                         .step = step_,
                         .samples = samples_};
  if (stream == nullptr) {
    calls_.send(call);
    return;
  }
  if (!options_.device.has_value() &&
      !stream->device().capabilities().device_memory_is_host_memory) {
    throw std::invalid_argument("leat: GradientExchange: the CPU does not reach the memory of " +
                                stream->device().name() + "; set ExchangeOptions::device");
  }
  trainer_events_->after(*stream, call);
}

void Exchange::give_empty() {
  for (std::uint32_t i = 0; i < given_.size(); ++i) {
    if (given_[i].step == step_) continue;
    // The trainer may still use the last result on that stream.
    const std::optional<gpu::StreamRef> stream = given_[i].last_stream;
    give(i, false, stream.has_value() ? &*stream : nullptr);
  }
  in_backward_ = false;
  const SpinLockGuard guard(stats_lock_);
  ++steps_;
}

void Exchange::end_backward() {
  require_alive();
  if (!in_backward_) {
    if (samples_ == 0 && step_ > 0) return;  // it ended with begin_step()
    throw std::logic_error("leat: GradientExchange::end_backward: no backward has begun");
  }
  for (std::size_t i = 0; i < given_.size(); ++i) {
    if (given_[i].step == step_ || given_[i].awaited) continue;
    throw std::logic_error("leat: GradientExchange::end_backward: the result of gradient " +
                           std::to_string(i) + " (\"" + plan_.gradients[i].name + "\") of step " +
                           std::to_string(given_[i].step) + " was not awaited");
  }
  give_empty();
}

Exchange::Awaited Exchange::await(std::size_t index, const gpu::StreamRef* stream) {
  require_alive();
  Given& one = given(index, "await");
  if (in_backward_ && one.step < step_ && one.awaited) {
    throw std::logic_error("leat: GradientExchange::await(" + std::to_string(index) + "), \"" +
                           plan_.gradients[index].name + "\": it is not ready in step " +
                           std::to_string(step_) + ", and the backward has not ended");
  }
  if (one.awaited) return Awaited::kNothing;
  if (options_.synchronous) {
    for (std::uint32_t other = 0; other < given_.size(); ++other) {
      if (!given_[other].awaited) wait(other);
    }
  } else {
    wait(static_cast<std::uint32_t>(index));
  }
  one.awaited = true;
  const Result& result = results_[index];
  if (stream != nullptr) {
    if (one.last_stream != *stream) one.last_stream = *stream;
    if (result.handed.has_value()) stream->wait(*result.handed);
  } else if (result.handed.has_value()) {
    result.handed->await();
  }
  return result.is_empty ? Awaited::kEmpty : Awaited::kResult;
}

ExchangeStats Exchange::stats() const {
  const TimePoint now = world_.time();
  const Meter::Times times = meter_.times(now);
  ExchangeStats stats{.pieces = pieces_done_.load(std::memory_order_relaxed),
                      .bytes = bytes_done_.load(std::memory_order_relaxed),
                      .exposed = times.awaiting,
                      .busy = times.busy,
                      .hidden = times.busy - times.both};
  std::size_t longest = 0;
  {
    const SpinLockGuard guard(stats_lock_);
    stats.steps = steps_;
    if (began_.has_value()) stats.time = now - *began_;
    for (std::size_t i = 0; i < waited_.size(); ++i) {
      if (waited_[i] > waited_[longest]) longest = i;
    }
    if (!waited_.empty()) stats.longest_wait = waited_[longest];
  }
  if (stats.longest_wait > Duration::zero()) {
    stats.longest_awaited = plan_.gradients[longest].name;
  }
  return stats;
}

void Exchange::wait(std::uint32_t index) {
  Result& result = results_[index];
  const std::uint64_t step = given_[index].step;
  if (leads_ && options_.urgency == Urgency::kAwaited) {
    calls_.send({.kind = TrainerCall::Kind::kAwaited, .index = index});
  }
  if (result.step.load(std::memory_order_acquire) >= step) return;
  const TimePoint began = world_.time();
  const Deadline deadline = Deadline::after(
      now(),
      Deadline::after(TimePoint() + kGrace, world_.options().deadline).at().time_since_epoch());
  meter_.set_awaiting(true, began);
  const auto end = [&] {
    const TimePoint ended = world_.time();
    meter_.set_awaiting(false, ended);
    const SpinLockGuard guard(stats_lock_);
    waited_[index] += ended - began;
  };
  try {
    while (result.step.load(std::memory_order_acquire) < step) {
      require_alive();
      std::optional<char> rung;
      if (result.bell.recv_until(rung, deadline.at()) == ChannelStatus::timed_out) {
        fail_late(index);
      }
    }
  } catch (...) {
    end();
    throw;
  }
  end();
}

void Exchange::fail_late(std::uint32_t index) {
  const std::string step = "step " + std::to_string(given_[index].step);
  world_.fail({.peer = 0,
               .operation = step,
               .tensor = plan_.gradients[index].name,
               .what = "\"" + plan_.gradients[index].name + "\" of " + step +
                       " has no result by the deadline, and rank 0, which leads, has said nothing: "
                       "it may be late, stopped or dead"});
  throw_failure(end_->world_rank(), world_.failure());
}

void Exchange::broadcast(std::span<const Gradient> tensors, int root) {
  require_alive();
  const bool stages = !cpu_reaches(options_.device);
  for (const Gradient& one : tensors) {
    if (!stages) {
      control_.broadcast(Elements(one.data.data(), one.count(), one.dtype), root).await();
      continue;
    }
    const gpu::PinnedBuffer pinned(*options_.device, one.data.size());
    const gpu::Stream stream(*options_.device);
    if (end_->rank() == root) copy_async(stream, pinned.span(), one.data);
    stream.sync();
    control_.broadcast(Elements(pinned.data(), one.count(), one.dtype), root).await();
    if (end_->rank() != root) copy_async(stream, one.data, pinned.span());
    stream.sync();
  }
}

}  // namespace leat::comm
