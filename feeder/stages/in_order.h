// Readers fill slots concurrently. This puts the slots back into the order of their batches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/slots/slots.h"

namespace leat::feeder {

/// Returns the slots of one rank, one at a time. Delivery in order: by sequence number. Delivery as
/// completed: as they arrive, but never before the end of the previous epoch. Holds back at most as
/// many slots as exist. For one fiber.
class InOrder {
 public:
  InOrder(const Channel<PinnedSlot*>& from, std::size_t slots, Delivery delivery)
      : from_(from), as_completed_(delivery == Delivery::kAsCompleted) {
    held_.reserve(slots);
  }

  /// Waits for the next slot and returns it. Sets `overtook` to the number of slots that were begun
  /// earlier and will be returned later.
  [[nodiscard]] PinnedSlot& next(std::uint64_t& overtook) {
    for (;;) {
      const auto found = std::ranges::find_if(held_, [&](const PinnedSlot* slot) {
        return as_completed_ ? may_go(*slot) : slot->sequence == gone_;
      });
      if (found != held_.end()) {
        PinnedSlot& slot = **found;
        *found = held_.back();
        held_.pop_back();
        overtook = slot.sequence > gone_ ? slot.sequence - gone_ : 0;
        ++gone_;
        return slot;
      }
      held_.push_back(from_.recv().value());  // never closed: the stages end by cancellation
    }
  }

 private:
  // The sampler sends the end of an epoch itself, so it arrives before the slots that follow it.
  [[nodiscard]] bool may_go(const PinnedSlot& slot) const {
    if (slot.ends_epoch) return slot.sequence == gone_;
    return std::ranges::none_of(held_, [&](const PinnedSlot* other) {
      return other->ends_epoch && other->sequence < slot.sequence;
    });
  }

  const Channel<PinnedSlot*>& from_;
  const bool as_completed_;
  std::vector<PinnedSlot*> held_;
  std::uint64_t gone_ = 0;
};

}  // namespace leat::feeder
