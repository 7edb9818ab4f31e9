// What a live view shows of each device, gathered from the device's ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/live/view.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/slots/slot_ring.h"

namespace leat::feeder {

/// What is shown of one device. Rates are 0 until there was a step: not known.
struct LiveRow {
  std::string device;
  std::uint64_t epoch = 0;  // of the latest batch that was released
  std::uint64_t done = 0;   // batches released, of `total`
  std::uint64_t total = 0;
  double steps_per_second = 0;
  double samples_per_second = 0;
  double done_per_second = 0;  // how fast `done` grows, for the time left
  Stats stats;                 // of the latest second or so
  std::size_t filled = 0;      // pinned slots with a batch or the end of an epoch
  std::size_t ready = 0;       // device slots with a batch
};

/// Batches a second, from release to release, over the latest second or the latest four steps,
/// whichever is longer. Not thread-safe.
class LiveRate {
 public:
  /// Returns the rate by `now`, when the device is at `latest`; 0 until a step is known. A step
  /// that takes longer than those before counts as if it ended at `now`: the rate falls during a
  /// pause.
  double update(const StatsCollector::Progress& latest, TimePoint now);

 private:
  struct Release {
    TimePoint at;
    std::uint64_t batches;  // released by then
  };
  std::deque<Release> releases_;  // the rate counts from the oldest
};

/// What a live view gathers from.
struct LiveSource {
  std::vector<std::shared_ptr<SlotRing>> rings;
  std::uint64_t batches_per_epoch = 0;  // of each device or, if shared, of all together
  bool is_shared = false;               // Sharing::kDynamic
};

/// Gathers a row for each device. Not thread-safe; the rings are.
class LiveRows {
 public:
  LiveRows(const Live& live, LiveSource source) : live_(live), source_(std::move(source)) {}

  /// Returns the rows as they are by now, valid until the next call.
  std::span<const LiveRow> update();

 private:
  void update(std::size_t i);

  const Live live_;
  const LiveSource source_;
  int looks_ = 0;
  // Of each device:
  std::vector<LiveRate> rates_{source_.rings.size()};
  std::vector<StatsCollector::Window> windows_{source_.rings.size()};
  std::vector<LiveRow> rows_{source_.rings.size()};
};

}  // namespace leat::feeder
