// The runner: ranks, the links between them, and their fibers. Executor checks a schedule. The
// runner runs it unchecked, until it ends or stops.
//
// Not thread-safe, except stats().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/executor/link.h"
#include "leat/pipeline/executor/rank.h"
#include "leat/pipeline/schedule.h"

namespace leat::pipeline {

class Runner {
 public:
  /// All ranks of a lowered schedule, in this process. `capacity` places for each channel. Throws
  /// std::invalid_argument, GpuError.
  Runner(Schedule lowered, std::vector<RankPart> parts, const ExecutorOptions& options,
         int capacity);
  /// One rank of several processes, which agree (agreement.h): this rank of `ranks`, which the
  /// runner owns. Collective. Throws as above, and CommError.
  Runner(Schedule lowered, RankPart part, comm::Communicator ranks, const ExecutorOptions& options,
         int capacity);
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner() = default;

  /// See Executor.
  void step(std::uint64_t samples, std::uint64_t of, bool exchanges);
  void evaluate(std::uint64_t samples);
  [[nodiscard]] const Schedule& schedule() const noexcept { return schedule_; }
  [[nodiscard]] int capacity() const noexcept { return capacity_; }
  [[nodiscard]] const gpu::StreamRef& stream(std::size_t rank) const;
  [[nodiscard]] ExecutorStats stats() const;

 private:
  /// `workers` of a scheduler of its own, if there is no other.
  Runner(Schedule lowered, bool has_replicas, const ExecutorOptions& options, int capacity,
         int workers);
  void add(std::size_t rank, RankPart part);
  void link(std::size_t channel, std::size_t from, std::size_t to, std::size_t bytes);
  void link_all(const std::vector<std::size_t>& boundaries);
  void step(Batch batch);
  void run(const Batch& batch);
  void abort(const std::string& reason) const noexcept;
  [[nodiscard]] std::uint64_t most_of_microbatch() const noexcept;

  const Schedule schedule_;
  const Schedule forwards_;
  const ExecutorOptions options_;
  const int capacity_;
  bool has_failed_ = false;
  std::optional<comm::Communicator> processes_;  // if the other ranks are in others
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::size_t> pinned_bytes_;  // by rank: of the links with which it sends
  std::optional<Scheduler> own_;           // if it was made on a plain thread
  std::optional<TaskGroup> group_;
  // By rank; null: elsewhere. Destroyed first: they wait for their devices.
  std::vector<std::unique_ptr<Rank>> ranks_;
  mutable std::mutex mutex_;
  std::uint64_t steps_ = 0;           // mutex_
  Duration time_ = Duration::zero();  // mutex_
};

}  // namespace leat::pipeline
