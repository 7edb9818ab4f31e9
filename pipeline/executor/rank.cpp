#include "leat/pipeline/executor/rank.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "leat/csp/base/kept_exception.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/pipeline/executor/agreement.h"
#include "leat/pipeline/text.h"

namespace leat::pipeline {
namespace {

void hold(TimePoint until) {
  if (until != TimePoint::min()) sleep_until(until);
}

}  // namespace

Rank::Rank(const Schedule& lowered, const Schedule& forwards, std::size_t rank, RankPart part,
           std::uint64_t most)
    : rank_(rank),
      part_(std::move(part)),
      stages_(lowered.stages),
      whole_(compile(lowered, ranks_of_stages(lowered), rank)),
      forwards_(compile(forwards, ranks_of_stages(lowered), rank)),
      begun_(part_.device),
      links_(static_cast<std::size_t>(std::max(2 * (stages_ - 1), 0))) {
  for (std::size_t i = 0; i < 1 + std::max(whole_.lanes, forwards_.lanes); ++i) {
    lanes_.push_back(std::make_unique<Lane>(part_.device));
  }
  call_.emplace(Microbatch{.stream = stream()});
  allocate(lowered, most);
  if (part_.replicas == nullptr) return;
  std::vector<comm::Gradient> gradients;
  for (const auto& own : own_) {
    own->first_gradient = gradients.size();
    for (comm::Gradient& one : own->stage->gradients()) gradients.push_back(std::move(one));
    own->end_gradient = gradients.size();
  }
  comm::ExchangeOptions options = part_.exchange;
  options.weights = comm::Weights::kOnes;
  if (!options.device.has_value()) options.device = part_.device;
  if (options.policy == comm::Policy::kBucketed) require_buckets_end();
  if (!gradients.empty()) exchange_.emplace(*part_.replicas, std::move(gradients), options);
}

/// A bucket may have gradients of several stages: it is not complete before the last is ready.
void Rank::require_buckets_end() const {
  bool waits = false;
  for (const Instruction& one : whole_.instructions) {
    waits = waits || one.action.op == Op::kWaitReduceGrad;
    if (!waits || one.action.op != Op::kReduceGrad) continue;
    refuse("rank " + std::to_string(rank_) + " has " + to_string(one.action) +
           " behind a WAIT_REDUCE_GRAD: with Policy::kBucketed that may wait for itself; take "
           "another policy, or wait behind all of them");
  }
}

void Rank::allocate(const Schedule& lowered, std::uint64_t most) {
  const std::vector<int> ranks = ranks_of_stages(lowered);
  const auto is_here = [&](std::int32_t stage) {
    return ranks[static_cast<std::size_t>(stage)] == static_cast<int>(rank_);
  };
  std::size_t bytes = 0;
  for (std::int32_t stage = 0; stage < stages_; ++stage) {
    if (!is_here(stage)) continue;
    const std::size_t index = own_.size();
    auto own = std::make_unique<StageState>();
    own->stage = part_.stages[index];
    const std::uint32_t slots = std::max(whole_.slots[index], forwards_.slots[index]);
    own->number = stage;
    own->memory = own->stage->memory();
    own->slots = StageSlots({.memory = own->memory,
                             .samples = most,
                             .slots = slots,
                             .is_last = stage + 1 == stages_,
                             .sends_gradient = stage > 0 && !is_here(stage - 1)});
    bytes += own->slots.bytes();
    own_.push_back(std::move(own));
  }
  memory_.emplace(part_.device, bytes);
  std::size_t offset = 0;
  for (const auto& own : own_) {
    own->slots.place_in(memory_->subspan(offset, own->slots.bytes()));
    offset += own->slots.bytes();
  }
}

Rank::~Rank() {
  const Shield shield;
  for (const auto& lane : lanes_) {
    try {
      lane->stream.sync();
    } catch (...) {  // the device has failed; a step has told
      static_cast<void>(kept_exception());
    }
  }
}

void Rank::tell_memory(std::vector<StageMemory>& all) const {
  for (const auto& own : own_) all[static_cast<std::size_t>(own->number)] = own->memory;
}

void Rank::connect(std::uint32_t channel, Link* link) { links_[channel] = link; }

void Rank::abort(const std::string& reason) const noexcept {
  if (part_.replicas != nullptr) part_.replicas->abort(reason);
}

ExecutorStats::Rank Rank::stats() const {
  ExecutorStats::Rank stats{.rank = rank_, .peak_activations = {}, .exchange = {}};
  for (const auto& own : own_) {
    stats.peak_activations.push_back(own->peak.load(std::memory_order_relaxed));
  }
  stats.device_bytes = memory_->size();
  if (exchange_.has_value()) stats.exchange = exchange_->stats();
  return stats;
}

/// What f throws becomes a PipelineError at `at`.
template <class F>
void Rank::guarded(const Instruction*& at, const TaskGroup& group, const F& f) const {
  try {
    f();
  } catch (const Cancelled&) {
    if (group.stop_token().stop_requested()) throw;
    // Left alone, it would end this fiber as if all had gone well.
    throw PipelineError(rank_, at->column, at->action, "Cancelled, though nobody has cancelled it");
  } catch (const PipelineError&) {
    throw;
  } catch (const std::exception& error) {
    std::throw_with_nested(PipelineError(rank_, at->column, at->action, error.what()));
  } catch (...) {
    static_cast<void>(kept_exception());
    std::throw_with_nested(
        PipelineError(rank_, at->column, at->action, "an exception that is no std::exception"));
  }
}

void Rank::run(const Batch& batch, TaskGroup& group) {
  const Program& program = batch.evaluates ? forwards_ : whole_;
  if (program.instructions.empty()) return;
  const Instruction* at = &program.instructions.front();
  guarded(at, group, [&] { run(program, batch, group, at); });
}

void Rank::run(const Program& program, const Batch& batch, TaskGroup& group,
               const Instruction*& at) {
  const bool exchanges = exchange_.has_value() && batch.exchanges;
  for (const auto& own : own_) own->live = 0;
  if (exchanges) exchange_->begin_step(1);
  std::size_t done = 0;
  for (const Block& block : program.blocks) {
    if (block.lanes != 0) {
      run_together(program, block, batch, group, at);
    } else {
      for (std::size_t i = block.first; i < block.end; ++i) {
        at = &program.instructions[i];
        if (transfers(at->action.op)) {
          hold(transfer(*at, batch, stream()));
        } else {
          perform(*at, batch);
        }
      }
    }
    if (++done == program.backward_end && exchanges) exchange_->end_backward();
  }
  const gpu::Event& end = lanes_.front()->done;
  end.record(stream());
  end.await();
  for (Link* const link : links_) {
    if (link != nullptr) link->finish();
  }
}

void Rank::run_together(const Program& program, const Block& block, const Batch& batch,
                        TaskGroup& group, const Instruction*& at) {
  begun_.record(stream());
  const Instruction* const all = program.instructions.data();
  std::size_t lanes = 0;
  for (std::size_t first = block.transfers; first < block.end;) {
    std::size_t end = first + 1;
    while (end < block.end && all[end].channel == all[first].channel) ++end;
    // The main lane takes the last channel, if it has nothing to compute.
    const bool is_mine = block.transfers == block.first && end == block.end;
    Lane& lane = *lanes_[is_mine ? 0 : ++lanes];
    lane.first = all + first;
    lane.end = all + end;
    lane.batch = &batch;
    if (is_mine) break;
    lanes_at_work_.add();
    group.go([this, &lane, &group] {
      const Instruction* here = lane.first;
      guarded(here, group, [&] {
        lane.stream.wait(begun_);
        transfer_all(lane, here);
        lane.done.record(lane.stream);
      });
      lanes_at_work_.done();
    });
    first = end;
  }
  for (std::size_t i = block.first; i < block.transfers; ++i) {
    at = all + i;
    perform(*at, batch);
  }
  if (block.transfers == block.first) transfer_all(*lanes_.front(), at);
  lanes_at_work_.wait();
  for (std::size_t i = 1; i <= lanes; ++i) stream().wait(lanes_[i]->done);
}

void Rank::transfer_all(const Lane& lane, const Instruction*& at) {
  TimePoint until = TimePoint::min();
  for (at = lane.first; at != lane.end; ++at) {
    until = std::max(until, transfer(*at, *lane.batch, lane.stream));
  }
  at = lane.end - 1;
  hold(until);
}

TimePoint Rank::transfer(const Instruction& one, const Batch& batch, const gpu::StreamRef& stream) {
  const StageSlots& slots = own_[one.stage]->slots;
  const std::int32_t microbatch = one.action.microbatch;
  const std::uint64_t samples = batch.samples_of(microbatch);
  Link& link = *links_[one.channel];
  switch (one.action.op) {
    case Op::kSendForward:
      return link.send(stream, slots.output(one.slot, samples), microbatch, batch);
    case Op::kRecvForward:
      return link.recv(stream, slots.input(one.slot, samples), microbatch, batch);
    case Op::kSendBackward:
      return link.send(stream, slots.input_gradient(one.slot, samples), microbatch, batch);
    default: return link.recv(stream, slots.output_gradient(one.slot, samples), microbatch, batch);
  }
}

void Rank::perform(const Instruction& one, const Batch& batch) {
  StageState& own = *own_[one.stage];
  switch (one.action.op) {
    case Op::kForward: return forward(one, batch);
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeight: return backward(one, batch);
    case Op::kUnshard: return own.stage->unshard(stream());
    case Op::kReshard: return own.stage->reshard(stream());
    case Op::kReduceGrad:
      if (!batch.exchanges) return;
      for (std::size_t i = own.first_gradient; i < own.end_gradient; ++i) {
        exchange_->ready(i, stream());
      }
      return;
    case Op::kWaitReduceGrad:
      if (!batch.exchanges) return;
      for (std::size_t i = own.first_gradient; i < own.end_gradient; ++i) {
        static_cast<void>(exchange_->await(i, stream()));
      }
      return;
    default: return;
  }
}

/// Fills what stages are called with, but for the gradients.
Rank::StageState& Rank::describe(const Instruction& one, const Batch& batch) {
  StageState& own = *own_[one.stage];
  Microbatch& m = *call_;
  const std::uint64_t samples = batch.samples_of(one.action.microbatch);
  m.stage = one.action.stage;
  m.index = one.action.microbatch;
  m.first = batch.first_of(one.action.microbatch);
  m.samples = samples;
  m.weight = static_cast<double>(samples) / static_cast<double>(batch.of);
  m.evaluates = batch.evaluates;
  m.input = own.slots.input(one.slot, samples);
  m.output = own.slots.output(one.slot, samples);
  m.kept = own.slots.kept(one.slot, samples);
  m.left = own.slots.left(one.slot, samples);
  m.output_gradient = {};
  m.input_gradient = {};
  return own;
}

void Rank::forward(const Instruction& one, const Batch& batch) {
  StageState& own = describe(one, batch);
  const Microbatch& m = *call_;
  if (one.before != Instruction::kNone) {
    gpu::copy_async(stream(), m.input, own_[one.stage - 1]->slots.output(one.before, m.samples));
  }
  own.stage->forward(m);
  if (++own.live > own.peak.load(std::memory_order_relaxed) && !batch.evaluates) {
    own.peak.store(own.live, std::memory_order_relaxed);
  }
}

void Rank::backward(const Instruction& one, const Batch& batch) {
  StageState& own = describe(one, batch);
  Microbatch& m = *call_;
  m.output_gradient = own.slots.output_gradient(one.slot, m.samples);
  if (one.action.op != Op::kBackwardWeight) {
    m.input_gradient = one.before != Instruction::kNone
                           ? own_[one.stage - 1]->slots.output_gradient(one.before, m.samples)
                           : own.slots.input_gradient(one.slot, m.samples);
    own.stage->backward_input(m);
    m.input_gradient = {};
  }
  if (one.action.op != Op::kBackwardInput) {
    own.stage->backward_weight(m);
    --own.live;
  }
}

}  // namespace leat::pipeline
