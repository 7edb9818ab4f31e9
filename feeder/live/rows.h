// What a live view (feeder/live.h) shows of each device, gathered from its ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/live.h"
#include "leat/feeder/live/rate.h"
#include "leat/feeder/live/text.h"
#include "leat/feeder/slots/slot_ring.h"

namespace leat::feeder {

/// What a live view is of.
struct LiveSource {
  std::vector<std::shared_ptr<SlotRing>> rings;
  std::uint64_t batches_per_epoch = 0;  // for each device, or, shared, for all together
  bool is_shared = false;               // Sharing::kDynamic
};

/// Gathers rows. Not thread-safe; what it reads is.
class LiveRows {
 public:
  LiveRows(const Live& live, LiveSource source);

  /// Looks at what there is by now. To be called more often than rows are shown: the rates then
  /// begin where a second does.
  void update();
  [[nodiscard]] std::span<const LiveRow> rows() const noexcept { return rows_; }

 private:
  // Of one device: where its figures count from.
  struct From {
    LiveRate rate;
    std::optional<bool> is_own_time;  // of the releases
    StatsCollector::Window window;
    std::optional<TimePoint> since;
  };

  void update(std::size_t i);
  void share_progress();

  const Live live_;
  const LiveSource source_;
  std::vector<From> from_;
  std::vector<LiveRow> rows_;
};

}  // namespace leat::feeder
