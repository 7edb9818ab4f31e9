// One device's part of a trace, written by the stages and the leases.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/stats/batch_record.h"
#include "leat/feeder/trace.h"
#include "leat/feeder/trace/timeline.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "leat/gpu/trace_writer.h"

namespace leat::feeder {

/// What a trace keeps of one batch.
struct TracedBatch {
  TracedBatch(const gpu::Device& device, std::size_t which)
      : number(which),
        marks(device, {Mark::kCopyBegins, Mark::kCopyEnds, Mark::kUseBegins, Mark::kUseEnds}) {}

  const std::size_t number;  // counts the recorded batches
  Marks marks;
  StagedRecord record;             // as it was read or copied; under the trace's lock
  Stretch wait_for_batch;          // likewise; its lease begins with the end
  std::optional<TimePoint> ended;  // its lease, likewise
};

/// How full the channels of a device were.
struct Occupancy {
  TimePoint at;
  std::size_t filled = 0;
  std::size_t ready = 0;
  std::size_t free_device = 0;
};

/// Records one device's batches. Only the constructor allocates. Thread-safe.
class DeviceTrace final : public Observer {
 public:
  /// Syncs `stream` once, to relate the device's time to the scheduler's.
  DeviceTrace(const gpu::Stream& stream, const LocalRank& rank, const TraceOptions& options);

  /// `look` says how full the channels are. Called before the first event.
  void set_occupancy(std::function<Occupancy()> look) { look_ = std::move(look); }
  /// Chooses the batches, in the order of their copies: those of a trace follow each other, though
  /// their reads end in any order.
  void copy_begins(BatchRecord& batch) noexcept override;
  void copied(BatchRecord& batch) noexcept override;
  void handed_out(BatchRecord& batch) noexcept override;
  void used(BatchRecord& batch) noexcept override;
  void step_ended(BatchRecord& batch) noexcept override;
  void given_back(BatchRecord& batch) noexcept override;

  /// Adds the trace's events to `out`. Times count from `origin`.
  void write(gpu::TraceWriter& out, TimePoint origin) const;
  /// Returns what the device did for each batch that was used on a stream.
  [[nodiscard]] std::vector<TimedStep> steps() const;
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Returns whether no batch was copied.
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
  template <class Write>
  void note(const BatchRecord& batch, const Write& write) noexcept;

  const std::size_t rank_;  // local
  const std::size_t rank_of_world_;
  const std::string name_;
  const std::uint64_t skip_;
  std::function<Occupancy()> look_;
  gpu::Event anchor_;  // the device reached it at anchored_
  TimePoint anchored_;
  std::atomic<std::uint64_t> next_{0};
  mutable std::mutex mutex_;  // never held across a park
  std::vector<std::unique_ptr<TracedBatch>> batches_;
  std::vector<Occupancy> occupancies_;
};

}  // namespace leat::feeder
