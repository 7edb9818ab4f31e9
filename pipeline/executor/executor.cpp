#include "leat/pipeline/executor.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "leat/csp/base/kept_exception.h"
#include "leat/pipeline/check.h"
#include "leat/pipeline/executor/agreement.h"
#include "leat/pipeline/executor/runner.h"
#include "leat/pipeline/text.h"

namespace leat::pipeline {
namespace {

/// The places that a schedule is run with. Throws ScheduleError if it has a fault.
int places_of(const Schedule& schedule, const ExecutorOptions& options) {
  const CheckResult result = check(schedule, {.capacity = options.capacity});
  const bool runs = result.capacities.to_run.has_value();
  if (result.stop.has_value() && (options.capacity.has_value() || !runs)) {
    throw ScheduleError({{.row = -1, .column = -1, .reason = result.report(schedule)}});
  }
  // A schedule as written that stops without places runs with some.
  if (!result.findings.empty() && !runs) throw ScheduleError(result.findings);
  if (options.capacity.has_value()) return *options.capacity;
  return is_lowered(schedule) ? *result.capacities.to_run : *result.capacities.full_speed;
}

void require_parts(const Schedule& schedule, std::size_t ranks) {
  if (ranks == schedule.rows.size()) return;
  refuse("there are " + std::to_string(ranks) + " ranks for " +
         std::to_string(schedule.rows.size()) + " rows");
}

void require_stages(const Schedule& schedule, std::size_t rank, const RankPart& part) {
  const std::vector<int> ranks = ranks_of_stages(schedule);
  const auto stages = static_cast<std::size_t>(std::ranges::count(ranks, static_cast<int>(rank)));
  if (part.stages.size() != stages) {
    refuse("rank " + std::to_string(rank) + " has " + std::to_string(part.stages.size()) +
           " stages, and its row has " + std::to_string(stages));
  }
  if (std::ranges::find(part.stages, nullptr) != part.stages.end()) refuse("a stage is null");
}

void require_options(const Schedule& schedule, const ExecutorOptions& options) {
  if (options.most_samples < static_cast<std::uint64_t>(schedule.microbatches)) {
    refuse("most_samples is " + std::to_string(options.most_samples) + "; each of " +
           std::to_string(schedule.microbatches) + " microbatches needs a sample");
  }
  if (options.link < Duration::zero()) refuse("the link's delay is negative");
}

}  // namespace

Executor::Executor(const Schedule& schedule, std::vector<RankPart> parts,
                   const ExecutorOptions& options) {
  const int places = places_of(schedule, options);
  require_parts(schedule, parts.size());
  require_options(schedule, options);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    require_stages(schedule, rank, parts[rank]);
  }
  runner_ = std::make_unique<Runner>(lower(schedule), std::move(parts), options, places);
}

Executor::Executor(const Schedule& schedule, RankPart part, const comm::Communicator& ranks,
                   const ExecutorOptions& options) {
  comm::Communicator own = ranks.duplicate();
  int places = 0;
  std::exception_ptr failure;
  try {
    places = places_of(schedule, options);
    require_parts(schedule, static_cast<std::size_t>(ranks.size()));
    require_options(schedule, options);
    require_stages(schedule, static_cast<std::size_t>(ranks.rank()), part);
    if (options.link != Duration::zero()) refuse("a link's delay is for ranks of one process");
  } catch (...) {
    failure = kept_exception();
  }
  agree(own, schedule, options, failure);
  runner_ =
      std::make_unique<Runner>(lower(schedule), std::move(part), std::move(own), options, places);
}

Executor::~Executor() = default;

void Executor::step(std::uint64_t samples, std::uint64_t of, bool exchanges) {
  runner_->step(samples, of, exchanges);
}

void Executor::evaluate(std::uint64_t samples) { runner_->evaluate(samples); }

const Schedule& Executor::schedule() const noexcept { return runner_->schedule(); }

int Executor::capacity() const noexcept { return runner_->capacity(); }

const gpu::StreamRef& Executor::stream(std::size_t rank) const { return runner_->stream(rank); }

ExecutorStats Executor::stats() const { return runner_->stats(); }

}  // namespace leat::pipeline
