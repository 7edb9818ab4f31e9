// When the steps of a device's consumer begin and end.
//
// With several leases at a time, one thread may release a lease while the consumer asks for the
// next batch, which ends the same step. SlotRing::guard() is between the two.
#pragma once

#include <atomic>
#include <cstdint>

#include "leat/csp/clock.h"
#include "leat/feeder/slots/slots.h"

namespace leat::feeder {

class SlotRing;

/// Writes the consumer's part of a batch's record, and tells the observers. Thread-safe.
class Steps {
 public:
  /// Keeps a reference.
  explicit Steps(const SlotRing& ring) noexcept : ring_(ring) {}

  /// A lease of the batch begins. The consumer has waited for the batch for `waited`.
  void handed_out(DeviceSlot& slot, PassId pass, Duration waited) noexcept;
  /// The CPU has waited for the copy since `since`, until it was done or the wait has timed out.
  /// Further waits within the step go on with the first one.
  void waited(DeviceSlot& slot, TimePoint since, bool is_done) noexcept;
  /// The slot's first stream waits for the copy now. Needs the guard.
  void used(DeviceSlot& slot) noexcept;
  /// The consumer asks for the batch after `turn`, and may still hold the lease of `turn`; or, if
  /// that moment is not known, first uses the batch after `turn`. Has no effect if the step has
  /// ended, or if `turn` is none.
  void next_asked(const Turn& turn) noexcept;
  /// The batch is about to be released: the step ends, if it has not.
  void released(DeviceSlot& slot) noexcept;

 private:
  void end(DeviceSlot& slot, bool next_is_asked) noexcept;
  [[nodiscard]] Duration take_late_waits(DeviceSlot::Use& use) const noexcept;

  const SlotRing& ring_;
  std::atomic<bool> binds_streams_{false};  // the consumer has done so
  // The sum of the waits for the copies of batches whose steps had ended.
  std::atomic<Duration::rep> late_waits_{0};
};

}  // namespace leat::feeder
