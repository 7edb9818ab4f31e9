// The executor: runs a schedule, with one fiber for each rank.
//
// Example
//   std::vector<pipeline::RankPart> parts;                       // four ranks of this process
//   for (int r = 0; r < 4; ++r) parts.push_back({.device = devices[r], .stages = {&stages[r]}});
//   pipeline::Executor executor(make(Kind::kOneFOneB, {.ranks = 4, .microbatches = 8}),
//                               std::move(parts), {.most_samples = 64});
//   for (auto& batch : feed.epoch(0)) {
//     stages.zero_gradients();
//     executor.step(batch.size());                                // forward and backward
//     stages.update();
//   }
//
// An order is lowered, and runs with the least capacity for full speed. A schedule with Sends and
// Recvs runs as written. A rank's cell begins when the work of the cell before it has run on the
// device.
//
// In a process a value goes through pinned memory: the sender's device copies it there, and the
// receiver's device copies it from there. Between processes comm carries it in between.
//
// The constructor allocates the memory, for `most_samples`: for each stage, as many microbatches as
// live at once; for each channel, its places; between processes, one more place at the receiver. No
// step allocates after the first.
//
// Samples: with N samples, the first N mod B microbatches have one sample more than the others.
//
// Thread and fiber safety: one fiber or thread at a time calls an executor; any may call stats().
//
// Errors: std::invalid_argument at once for a mistake of the caller. If a step fails, all ranks
// that live throw PipelineError, with rank, stage, microbatch and cell. The executor can then only
// be destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/csp/clock.h"
#include "leat/csp/error.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/stage.h"

namespace leat::pipeline {

class Runner;

/// A step failed. what() says on which rank, in which cell, with which stage and microbatch, and
/// why; the cause is nested.
class PipelineError : public Error {
 public:
  /// For the executor.
  PipelineError(std::size_t rank, std::size_t column, const Action& action,
                const std::string& reason);
  /// The rank that reports it. Its peer's name is in what(), where the peer is the cause.
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  /// The cell, from 0, of the schedule that runs.
  [[nodiscard]] std::size_t column() const noexcept { return column_; }
  /// The action.
  [[nodiscard]] const Action& action() const noexcept { return action_; }

 private:
  std::size_t rank_;
  std::size_t column_;
  Action action_;
};

/// What a rank of this process is made of.
struct RankPart {
  gpu::Device device;
  /// Its stages, in the order of their numbers. Not null.
  std::vector<Stage*> stages;
  /// The ranks with the same stages in other replicas of the pipeline; null: there are no replicas.
  /// Gradients are exchanged among them, with weights of 1.
  const comm::Communicator* replicas = nullptr;
  comm::ExchangeOptions exchange = {};
};

/// Options of an executor.
struct ExecutorOptions {
  std::uint64_t most_samples = 0;  ///< of a step; at least the schedule's microbatches
  /// Places of a channel. None: for an order, the least for full speed; for a schedule with Sends
  /// and Recvs, the least that it runs with.
  std::optional<int> capacity = {};
  /// A delay that is added to every value's way; for models, on a virtual clock. Within a process
  /// only.
  Duration link = Duration::zero();
};

/// What an executor has measured in this process.
struct ExecutorStats {
  std::uint64_t steps = 0;
  Duration time = Duration::zero();  ///< of all steps
  /// What one rank of the schedule has measured and holds.
  struct Rank {
    std::size_t rank = 0;
    std::vector<std::int64_t> peak_activations;  ///< measured, for each of its stages
    std::size_t device_bytes = 0;                ///< of activations
    std::size_t pinned_bytes = 0;                ///< of places
    std::optional<comm::ExchangeStats> exchange;
  };
  std::vector<Rank> ranks;
};

/// Runs a schedule.
class Executor {
 public:
  /// All ranks in this process: `parts` has one for each row. Throws ScheduleError if check() finds
  /// a fault, std::invalid_argument for parts and options that do not fit, GpuError.
  Executor(const Schedule& schedule, std::vector<RankPart> parts, const ExecutorOptions& options);
  /// One rank of several processes: this rank of `ranks`, which has as many ranks as the schedule
  /// has rows. The executor makes a duplicate. Collective: if schedules or options differ, or
  /// stages do not fit together, all ranks throw. Throws as above, and Error if another rank
  /// differs or has thrown.
  Executor(const Schedule& schedule, RankPart part, const comm::Communicator& ranks,
           const ExecutorOptions& options);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  /// Joins all fibers. Between processes, ranks that are in a step get an error.
  ~Executor();

  /// Runs forward and backward of `samples` samples. When it returns, gradients have accumulated,
  /// and are summed over replicas. `of` is N, the samples of one update: of several steps, or of
  /// all replicas; 0: `samples`. Between processes: collective, with the same numbers. Throws
  /// std::invalid_argument for samples fewer than microbatches or more than most_samples,
  /// PipelineError, Cancelled; on a virtual clock Deadlock, if the schedule stops.
  ///
  /// With several steps before one update, replicas exchange gradients in the last step. In the
  /// other steps `exchanges` is false, on all replicas.
  void step(std::uint64_t samples, std::uint64_t of = 0, bool exchanges = true);
  /// Runs forwards alone. Otherwise as step().
  void evaluate(std::uint64_t samples);

  /// The schedule that runs: lowered, with reductions where replicas need them.
  [[nodiscard]] const Schedule& schedule() const noexcept;
  /// The places of each channel.
  [[nodiscard]] int capacity() const noexcept;
  /// The stream of a rank of this process: work enqueued there follows the step.
  [[nodiscard]] const gpu::StreamRef& stream(std::size_t rank) const;
  /// What it has measured. Thread-safe.
  [[nodiscard]] ExecutorStats stats() const;

 private:
  std::unique_ptr<Runner> runner_;
};

}  // namespace leat::pipeline
