// One device's part of a trace, written by the stages and the leases.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/slots/slots.h"
#include "leat/feeder/stats/timeline.h"
#include "leat/feeder/trace.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "leat/gpu/trace_writer.h"

namespace leat::feeder {

/// A stretch of the scheduler's time.
struct Stretch {
  TimePoint begin;
  TimePoint end;
};

/// The record of one batch. The code that enqueues work records the events. All other members are
/// written under the trace's lock.
struct TracedBatch {
  TracedBatch(const gpu::Device& device, std::size_t number);

  const std::size_t number;         // counts the recorded batches
  gpu::Event copy_begin, copy_end;  // on the copy stream
  gpu::Event use_begin, use_end;    // on the lease's first stream
  BatchId batch;
  std::size_t reader = 0;
  std::size_t slot = 0;  // the device's
  std::size_t bytes = 0;
  Stretch read, wait_for_slot, lease, wait_for_batch;
  bool is_read = false;
  bool is_copied = false;
  bool is_leased = false;
  bool is_used = false;      // use_begin is recorded
  bool is_released = false;  // use_end is recorded
  bool has_ended = false;
};

/// How full the channels of a device were.
struct Occupancy {
  TimePoint at;
  std::size_t filled = 0;
  std::size_t ready = 0;
  std::size_t free_device = 0;
};

/// Records one device's batches. Only the constructor allocates. Thread-safe.
class DeviceTrace {
 public:
  /// Syncs `stream` once, to relate the device's time to the scheduler's.
  DeviceTrace(const gpu::Stream& stream, const LocalRank& rank, const TraceOptions& options);

  /// Returns the record for a batch that is about to be read; null: do not record it.
  [[nodiscard]] TracedBatch* next() noexcept;
  /// Calls write(batch) under the lock, and notes the occupancy. Does nothing for null.
  template <class Write>
  void note(TracedBatch* batch, const Occupancy& now, Write&& write) {
    if (batch == nullptr) return;
    const std::scoped_lock lock(mutex_);
    write(*batch);
    if (occupancies_.size() < occupancies_.capacity()) occupancies_.push_back(now);
  }

  /// Adds the trace's events to `out`. Times count from `origin`.
  void write(gpu::TraceWriter& out, TimePoint origin) const;
  /// Returns what the device did for each batch that was used on a stream.
  [[nodiscard]] std::vector<TimedStep> steps() const;
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Returns whether next() has never been called.
  [[nodiscard]] bool is_unused() const noexcept {
    return next_.load(std::memory_order_relaxed) == 0;
  }
  /// Returns the time of construction.
  [[nodiscard]] TimePoint origin() const noexcept { return anchored_; }

 private:
  // What the device did for a batch, as far as it is done.
  struct Work {
    const TracedBatch* batch;
    std::optional<DeviceSpan> copy, use;
  };
  // Returns all batches that were read, in the order in which the device copied them. Those that it
  // has not copied come last. Needs the lock.
  [[nodiscard]] std::vector<Work> work_done(TimePoint origin) const;

  const std::size_t rank_;  // local
  const std::size_t rank_of_world_;
  const std::string name_;
  const std::uint64_t skip_;
  gpu::Event anchor_;  // the device reached it at anchored_
  TimePoint anchored_;
  std::atomic<std::uint64_t> next_{0};
  mutable std::mutex mutex_;  // never held across a park
  std::vector<std::unique_ptr<TracedBatch>> batches_;
  std::vector<Occupancy> occupancies_;
};

}  // namespace leat::feeder
