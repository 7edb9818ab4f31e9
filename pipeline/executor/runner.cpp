#include "leat/pipeline/executor/runner.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/clock.h"
#include "leat/csp/wait/kept_exception.h"
#include "leat/pipeline/executor/program.h"
#include "leat/pipeline/text.h"

namespace leat::pipeline {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("leat: pipeline: " + what);
}

std::string describe(std::size_t rank, std::size_t column, const Action& action) {
  std::string text = "rank " + std::to_string(rank) + ", cell " + std::to_string(column) + ", " +
                     to_string(action) + " (stage " + std::to_string(action.stage);
  if (action.microbatch >= 0) text += ", microbatch " + std::to_string(action.microbatch);
  return text + ")";
}

bool have_replicas(const std::vector<RankPart>& parts) {
  return std::ranges::any_of(parts, [](const RankPart& one) { return one.replicas != nullptr; });
}

}  // namespace

PipelineError::PipelineError(std::size_t rank, std::size_t column, const Action& action,
                             const std::string& reason)
    : Error("leat: pipeline: " + describe(rank, column, action) + ": " + reason),
      rank_(rank),
      column_(column),
      action_(action) {}

Runner::Runner(Schedule lowered, std::vector<RankPart> parts, const ExecutorOptions& options,
               int capacity)
    : schedule_(have_replicas(parts) ? with_reductions(std::move(lowered)) : std::move(lowered)),
      forwards_(forwards_of(schedule_)),
      options_(options),
      capacity_(capacity) {
  const std::size_t rows = schedule_.rows.size();
  if (parts.size() != rows) {
    refuse("there are " + std::to_string(parts.size()) + " parts for " + std::to_string(rows) +
           " rows; each row is a rank of this process");
  }
  const auto microbatches = static_cast<std::uint64_t>(schedule_.microbatches);
  if (options.most_samples < microbatches) {
    refuse("most_samples is " + std::to_string(options.most_samples) + "; each of " +
           std::to_string(microbatches) + " microbatches needs a sample");
  }
  if (options.link < Duration::zero()) refuse("the link's delay is negative");
  if (!on_fiber()) own_.emplace();
  own_.has_value() ? group_.emplace(*own_) : group_.emplace();
  const std::uint64_t most = (options.most_samples + microbatches - 1) / microbatches;
  for (std::size_t rank = 0; rank < rows; ++rank) {
    ranks_.push_back(
        std::make_unique<Rank>(schedule_, forwards_, rank, std::move(parts[rank]), most));
  }
  pinned_bytes_.resize(rows);
  const std::vector<int> rank_of = ranks_of_stages(schedule_);
  const auto link = [&](std::size_t from, std::size_t to, std::size_t channel, std::size_t bytes) {
    links_.push_back(std::make_unique<LocalLink>(ranks_[from]->device(), ranks_[to]->device(),
                                                 bytes * most, capacity_, options_.link));
    for (const std::size_t end : {from, to}) {
      ranks_[end]->connect(static_cast<std::uint32_t>(channel), links_.back().get());
    }
    pinned_bytes_[from] += links_.back()->pinned_bytes();
  };
  for (std::size_t stage = 0; stage + 1 < rank_of.size(); ++stage) {
    const auto from = static_cast<std::size_t>(rank_of[stage]);
    const auto to = static_cast<std::size_t>(rank_of[stage + 1]);
    const std::size_t bytes = ranks_[from]->memory_of(static_cast<std::int32_t>(stage)).output;
    if (bytes != ranks_[to]->memory_of(static_cast<std::int32_t>(stage) + 1).input) {
      refuse("the output of stage " + std::to_string(stage) +
             " has other bytes than the input of stage " + std::to_string(stage + 1));
    }
    if (from == to) continue;
    link(from, to, 2 * stage, bytes);
    link(to, from, 2 * stage + 1, bytes);
  }
}

void Runner::step(std::uint64_t samples, std::uint64_t of, bool evaluates) {
  if (has_failed_) throw std::logic_error("leat: pipeline: a step has failed; make a new executor");
  if (of == 0) of = samples;
  const auto microbatches = static_cast<std::uint64_t>(schedule_.microbatches);
  if (samples < microbatches || samples > options_.most_samples) {
    refuse("a step of " + std::to_string(samples) + " samples; it has " +
           std::to_string(microbatches) + " (a sample for each microbatch) to " +
           std::to_string(options_.most_samples) + " (most_samples)");
  }
  if (of < samples) {
    refuse("a step of " + std::to_string(samples) + " samples is more than all, " +
           std::to_string(of));
  }
  const TimePoint began = now();
  try {
    run({.samples = samples, .of = of, .microbatches = microbatches, .evaluates = evaluates});
  } catch (...) {
    has_failed_ = true;
    throw;
  }
  const std::scoped_lock lock(mutex_);
  time_ += now() - began;
  ++steps_;
}

void Runner::run(const Batch& batch) {
  for (const auto& rank : ranks_) {
    group_->go([rank = rank.get(), &batch, &group = *group_] { rank->run(batch, group); },
               {.name = "rank"});
  }
  try {
    group_->wait();
  } catch (const Cancelled&) {
    for (const auto& rank : ranks_) rank->abort("a step was cancelled");
    throw;
  } catch (const std::exception& error) {
    for (const auto& rank : ranks_) rank->abort(error.what());
    throw;
  }
}

const gpu::StreamRef& Runner::stream(std::size_t rank) const {
  for (const auto& one : ranks_) {
    if (one->rank() == rank) return one->stream();
  }
  refuse("rank " + std::to_string(rank) + " is not in this process");
}

ExecutorStats Runner::stats() const {
  ExecutorStats stats;
  {
    const std::scoped_lock lock(mutex_);
    stats.steps = steps_;
    stats.time = time_;
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    stats.ranks.push_back(ranks_[i]->stats());
    stats.ranks.back().pinned_bytes = pinned_bytes_[i];
  }
  return stats;
}

}  // namespace leat::pipeline
