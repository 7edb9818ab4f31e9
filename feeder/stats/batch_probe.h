// The observers of one device's batches: measurements and trace.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "leat/csp/clock.h"
#include "leat/feeder/slots/slots.h"
#include "leat/feeder/stats/device_trace.h"
#include "leat/feeder/stats/step_timing.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

class SlotRing;

/// A reader's work for one batch.
struct Filling {
  std::size_t reader = 0;
  TimePoint begin;
  Duration busy = Duration::zero();
  Duration cpu = Duration::zero();  // the part of `busy` that the reader computed
  std::uint64_t cold_bytes = 0;     // that the disk was to fetch
  std::uint64_t major_faults = 0;
};

/// Passes each instant on to the observers that are on. The owner of a slot calls. The copier's
/// instants come from one fiber. Observers of the other instants are thread-safe.
class BatchProbe {
 public:
  /// `trace` is null where it is off. Keeps references to the ring and its stats.
  BatchProbe(const SlotRing& ring, StatsCollector& stats, std::shared_ptr<DeviceTrace> trace);
  BatchProbe(const BatchProbe&) = delete;
  BatchProbe& operator=(const BatchProbe&) = delete;

  /// A reader has filled the slot.
  void filled(PinnedSlot& slot, const Filling& filling);

  /// The copier takes a batch before `batches` that were begun earlier.
  void overtook(std::uint64_t batches) noexcept;
  /// The copier waits for a device slot.
  void slot_wanted() noexcept { slot_wanted_ = now(); }
  /// The copier has a device slot for the batch in `from`, the last of its epoch if `is_last`. The
  /// copy stream does not wait for the slot's release events yet.
  void slot_found(const PinnedSlot& from, bool is_last);
  /// The copy from `from` is about to be enqueued.
  void copy_begins(PinnedSlot& from);
  /// All copies of the batch, of `bytes` in all, are enqueued.
  void copied(DeviceSlot& to, std::size_t bytes);

  /// The consumer asks for the next batch, which it will use on `stream`.
  void asked(const gpu::StreamRef& stream);
  /// A lease of the batch begins. The consumer has waited for the batch for `waited`.
  void handed_out(DeviceSlot& slot, PassId pass, Duration waited) noexcept;
  /// The CPU has waited for the copy since `since`, until it was done or the wait has timed out.
  /// Further waits within the step go on with the first one.
  void waited(DeviceSlot& slot, TimePoint since, bool is_done) noexcept;
  /// `stream`, the slot's first, is about to wait for the copy, and waits for it now.
  void binds(const DeviceSlot& slot, const gpu::StreamRef& stream);
  void bound(const DeviceSlot& slot, const gpu::StreamRef& stream);
  /// The consumer asks for the batch after `turn`, and may still hold the lease of `turn`; or, if
  /// that moment is not known, first uses the batch after `turn`. Has no effect if the step has
  /// ended, or if `turn` is none.
  void next_asked(const Turn& turn) noexcept;
  /// The release events are about to be recorded.
  void releases(DeviceSlot& slot);
  /// The lease is over; `done`: the batch was released, not abandoned.
  void ended(DeviceSlot& slot, bool done) noexcept;
  /// The slot goes back to the copier, whether it was leased or not.
  void given_back(DeviceSlot& slot);

 private:
  template <class Write>
  void note(TracedBatch* batch, Write&& write);
  void mark_end(DeviceSlot& slot, bool next_is_asked);
  void end_step(DeviceSlot& slot) noexcept;
  [[nodiscard]] Duration take_late_waits(DeviceSlot::Use& use) const noexcept;

  const SlotRing& ring_;
  StatsCollector& stats_;
  const std::shared_ptr<DeviceTrace> trace_;
  std::atomic<bool> binds_streams_{false};  // the consumer has done so
  // The sum of the waits for the copies of batches whose steps had ended.
  std::atomic<Duration::rep> late_waits_{0};

  // For the copier alone: the batch that it copies.
  TimePoint slot_wanted_;
  Duration blocked_ = Duration::zero();  // how long the copier waited for a slot
  StepPart part_ = StepPart::kNone;
  TracedBatch* traced_ = nullptr;
  // For the copier alone: the pair of steps that is sampled, and the pass of its first batch.
  std::shared_ptr<StepTiming> pair_;
  std::uint64_t pair_generation_ = 0;
  std::uint64_t pair_epoch_ = 0;
};

}  // namespace leat::feeder
