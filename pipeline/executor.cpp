#include "leat/pipeline/executor.h"

#include <utility>

#include "leat/pipeline/check.h"
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

}  // namespace

Executor::Executor(const Schedule& schedule, std::vector<RankPart> parts,
                   const ExecutorOptions& options) {
  const int places = places_of(schedule, options);
  runner_ = std::make_unique<Runner>(lower(schedule), std::move(parts), options, places);
}

Executor::~Executor() = default;

void Executor::step(std::uint64_t samples, std::uint64_t of) { runner_->step(samples, of, false); }

void Executor::evaluate(std::uint64_t samples) { runner_->step(samples, 0, true); }

const Schedule& Executor::schedule() const noexcept { return runner_->schedule(); }

int Executor::capacity() const noexcept { return runner_->capacity(); }

const gpu::StreamRef& Executor::stream(std::size_t rank) const { return runner_->stream(rank); }

ExecutorStats Executor::stats() const { return runner_->stats(); }

}  // namespace leat::pipeline
