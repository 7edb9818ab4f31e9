#include "leat/pipeline/executor/runner.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/base/kept_exception.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/pipeline/executor/agreement.h"
#include "leat/pipeline/executor/program.h"
#include "leat/pipeline/executor/remote_link.h"
#include "leat/pipeline/text.h"

namespace leat::pipeline {
namespace {

// Of a rank's fiber: the stages call what they like there, such as cuBLAS.
constexpr std::size_t kStackSize = std::size_t{1} << 20;

std::string place_of(std::size_t rank, std::size_t column, const Action& action) {
  std::string text = "rank " + std::to_string(rank) + ", cell " + std::to_string(column) + ", " +
                     to_string(action) + " (stage " + std::to_string(action.stage);
  if (action.microbatch >= 0) text += ", microbatch " + std::to_string(action.microbatch);
  return text + ")";
}

}  // namespace

PipelineError::PipelineError(std::size_t rank, std::size_t column, const Action& action,
                             const std::string& reason)
    : Error("leat: pipeline: " + place_of(rank, column, action) + ": " + reason),
      rank_(rank),
      column_(column),
      action_(action) {}

Runner::Runner(Schedule lowered, bool has_replicas, const ExecutorOptions& options, int capacity,
               int workers)
    : schedule_(has_replicas ? with_reductions(std::move(lowered)) : std::move(lowered)),
      forwards_(forwards_of(schedule_)),
      options_(options),
      capacity_(capacity),
      pinned_bytes_(schedule_.rows.size()),
      ranks_(schedule_.rows.size()) {
  if (!on_fiber()) own_.emplace(SchedulerOptions{.workers = workers});
  own_.has_value() ? group_.emplace(*own_) : group_.emplace();
}

Runner::Runner(Schedule lowered, std::vector<RankPart> parts, const ExecutorOptions& options,
               int capacity)
    : Runner(std::move(lowered),
             std::ranges::any_of(parts, [](const auto& one) { return one.replicas != nullptr; }),
             options, capacity, 0) {
  for (std::size_t rank = 0; rank < parts.size(); ++rank) add(rank, std::move(parts[rank]));
  std::vector<StageMemory> memory(static_cast<std::size_t>(schedule_.stages));
  for (const auto& rank : ranks_) rank->tell_memory(memory);
  link_all(boundaries(memory));
}

Runner::Runner(Schedule lowered, RankPart part, comm::Communicator ranks,
               const ExecutorOptions& options, int capacity)
    : Runner(std::move(lowered), part.replicas != nullptr, options, capacity, 1) {
  processes_.emplace(std::move(ranks));
  const auto rank = static_cast<std::size_t>(processes_->rank());
  add(rank, std::move(part));
  std::vector<StageMemory> memory(static_cast<std::size_t>(schedule_.stages));
  ranks_[rank]->tell_memory(memory);
  link_all(boundaries(*processes_, memory));
}

std::uint64_t Runner::most_of_microbatch() const noexcept {
  const auto microbatches = static_cast<std::uint64_t>(schedule_.microbatches);
  return (options_.most_samples + microbatches - 1) / microbatches;
}

void Runner::add(std::size_t rank, RankPart part) {
  ranks_[rank] =
      std::make_unique<Rank>(schedule_, forwards_, rank, std::move(part), most_of_microbatch());
}

void Runner::link_all(const std::vector<std::size_t>& boundaries) {
  const std::vector<int> rank_of = ranks_of_stages(schedule_);
  for (std::size_t stage = 0; stage < boundaries.size(); ++stage) {
    const auto from = static_cast<std::size_t>(rank_of[stage]);
    const auto to = static_cast<std::size_t>(rank_of[stage + 1]);
    if (from == to) continue;
    const std::size_t bytes = boundaries[stage] * most_of_microbatch();
    link(2 * stage, from, to, bytes);
    link(2 * stage + 1, to, from, bytes);
  }
}

void Runner::link(std::size_t channel, std::size_t from, std::size_t to, std::size_t bytes) {
  const auto number = static_cast<std::uint32_t>(channel);
  if (!processes_.has_value()) {
    links_.push_back(std::make_unique<LocalLink>(
        ranks_[from]->device(), ranks_[to]->device(), bytes, capacity_, options_.link,
        "channel " + std::to_string(from) + " to " + std::to_string(to)));
    pinned_bytes_[from] += links_.back()->pinned_bytes();
    ranks_[from]->connect(number, links_.back().get());
    ranks_[to]->connect(number, links_.back().get());
    return;
  }
  for (const bool sends : {true, false}) {
    const std::size_t here = sends ? from : to;
    const std::size_t peer = sends ? to : from;
    if (ranks_[here] == nullptr) continue;
    links_.push_back(std::make_unique<RemoteLink>(RemoteLink::Ends{.ranks = *processes_,
                                                                   .peer = static_cast<int>(peer),
                                                                   .channel = number,
                                                                   .sends = sends},
                                                  ranks_[here]->device(), bytes, capacity_));
    pinned_bytes_[here] += links_.back()->pinned_bytes();
    ranks_[here]->connect(number, links_.back().get());
  }
}

void Runner::step(std::uint64_t samples, std::uint64_t of, bool exchanges) {
  step({.samples = samples, .of = of == 0 ? samples : of, .exchanges = exchanges});
}

void Runner::evaluate(std::uint64_t samples) {
  step({.samples = samples, .of = samples, .evaluates = true});
}

void Runner::step(Batch batch) {
  if (has_failed_) throw std::logic_error("leat: pipeline: a step has failed; make a new executor");
  batch.microbatches = static_cast<std::uint64_t>(schedule_.microbatches);
  if (batch.samples < batch.microbatches || batch.samples > options_.most_samples) {
    refuse("a step of " + std::to_string(batch.samples) + " samples; it has " +
           std::to_string(batch.microbatches) + " (one for each microbatch) to " +
           std::to_string(options_.most_samples) + " (most_samples)");
  }
  if (batch.of < batch.samples) {
    refuse("a step of " + std::to_string(batch.samples) + " samples of " +
           std::to_string(batch.of));
  }
  const TimePoint began = now();
  batch.step = steps_;
  try {
    run(batch);
  } catch (...) {
    has_failed_ = true;
    throw;
  }
  const std::scoped_lock lock(mutex_);
  time_ += now() - began;
  ++steps_;
}

void Runner::run(const Batch& batch) {
  const auto go_all = [&] {
    for (const auto& rank : ranks_) {
      if (rank == nullptr) continue;
      // Without a name, which would be allocated.
      group_->go([rank = rank.get(), &batch, &group = *group_] { rank->run(batch, group); },
                 {.stack_size = kStackSize});
    }
  };
  try {
    try {
      go_all();
    } catch (...) {  // no stack, or cancelled; those that run use `batch`
      const std::exception_ptr cause = kept_exception();
      group_->stop();
      const Shield shield;
      group_->wait();
      std::rethrow_exception(cause);
    }
    group_->wait();
  } catch (const std::exception& error) {
    abort(error.what());
    throw;
  } catch (...) {
    static_cast<void>(kept_exception());
    abort("a step was cancelled");
    throw;
  }
}

/// Who waits for a rank of this process, in another one or in a replica, gets an error.
void Runner::abort(const std::string& reason) const noexcept {
  if (processes_.has_value()) processes_->abort(reason);
  for (const auto& rank : ranks_) {
    if (rank != nullptr) rank->abort(reason);
  }
}

const gpu::StreamRef& Runner::stream(std::size_t rank) const {
  if (rank >= ranks_.size() || ranks_[rank] == nullptr) {
    refuse("rank " + std::to_string(rank) + " is not in this process");
  }
  return ranks_[rank]->stream();
}

ExecutorStats Runner::stats() const {
  ExecutorStats stats;
  {
    const std::scoped_lock lock(mutex_);
    stats.steps = steps_;
    stats.time = time_;
  }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank] == nullptr) continue;
    stats.ranks.push_back(ranks_[rank]->stats());
    stats.ranks.back().pinned_bytes = pinned_bytes_[rank];
  }
  return stats;
}

}  // namespace leat::pipeline
