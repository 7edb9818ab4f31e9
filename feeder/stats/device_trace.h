// One device's part of a trace: what the stages and the leases tell it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/slots/slots.h"
#include "leat/feeder/trace.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// A stretch of the scheduler's time.
struct Stretch {
  TimePoint begin;
  TimePoint end;
};

/// What one batch went through. Events are recorded by who enqueues the work; the rest is written
/// under the trace's lock.
struct TracedBatch {
  TracedBatch(const gpu::Device& device, std::size_t number);

  const std::size_t number;         // among those recorded
  gpu::Event copy_begin, copy_end;  // on the copy stream
  gpu::Event use_begin, use_end;    // on the first stream that the lease was bound to
  BatchId batch;
  std::size_t reader = 0;
  std::size_t slot = 0;  // of the device
  std::size_t bytes = 0;
  Stretch read, wait_for_slot, lease, wait_for_batch;
  bool is_read = false;
  bool is_copied = false;
  bool is_leased = false;
  bool is_used = false;      // use_begin is recorded
  bool is_released = false;  // and use_end
  bool has_ended = false;
};

/// How full the channels of a device were.
struct Occupancy {
  TimePoint at;
  std::size_t filled = 0;
  std::size_t ready = 0;
  std::size_t free_device = 0;
};

/// Records one device's batches. All memory is allocated when it is made. Thread-safe.
class DeviceTrace {
 public:
  /// Syncs `stream` once, to learn how its time and the scheduler's belong together.
  DeviceTrace(const gpu::Stream& stream, const LocalRank& rank, const TraceOptions& options);

  /// For a batch that is about to be read: where to record it, or null.
  [[nodiscard]] TracedBatch* next() noexcept;
  /// Calls write(batch) under the lock, and notes the occupancy. Nothing for null.
  template <class Write>
  void note(TracedBatch* batch, const Occupancy& now, Write&& write) {
    if (batch == nullptr) return;
    const std::scoped_lock lock(mutex_);
    write(*batch);
    if (occupancies_.size() < occupancies_.capacity()) occupancies_.push_back(now);
  }

  /// Appends its events, each a line that ends with a comma. Times since `origin`.
  void write(std::string& out, TimePoint origin) const;
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  /// No batch was asked for yet.
  [[nodiscard]] bool is_unused() const noexcept {
    return next_.load(std::memory_order_relaxed) == 0;
  }
  /// When it was made.
  [[nodiscard]] TimePoint origin() const noexcept { return anchored_; }

 private:
  const std::size_t rank_;  // local
  const std::size_t rank_of_world_;
  const std::string name_;
  const std::uint64_t skip_;
  gpu::Event anchor_;  // was reached at anchored_
  TimePoint anchored_;
  std::atomic<std::uint64_t> next_{0};
  mutable std::mutex mutex_;  // never held across a park
  std::vector<std::unique_ptr<TracedBatch>> batches_;
  std::vector<Occupancy> occupancies_;
};

}  // namespace leat::feeder
