// What a live view (feeder/live.h) shows of each device, gathered from the device's ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/live.h"
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

/// Batches and samples a second, from release to release, over the latest second or the latest four
/// steps, whichever is longer. Arithmetic, without a clock. Not thread-safe.
class LiveRate {
 public:
  struct Rates {
    double batches = 0;
    double samples = 0;
  };

  /// At `at`, `batches` batches with `samples` samples had been released since the start. Counts
  /// may be left out; the same count again has no effect. An instant before the latest one, on
  /// another clock, starts anew.
  void add(TimePoint at, std::uint64_t batches, std::uint64_t samples);
  /// Zeros until a step is known. If the current step takes longer than the latest ones, it
  /// counts as if it ended at `now`, so that the rate falls during a pause.
  [[nodiscard]] Rates rates(TimePoint now) const;

 private:
  struct Release {
    TimePoint at;
    std::uint64_t batches;
    std::uint64_t samples;
  };
  std::deque<Release> releases_;  // the rates count from the oldest
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
  LiveRows(const Live& live, LiveSource source);

  /// Returns the rows as they are by now, valid until the next call.
  std::span<const LiveRow> update();

 private:
  // Where the figures of one device count from.
  struct Start {
    LiveRate rate;
    std::optional<bool> is_own_time;  // of the releases
    StatsCollector::Window window;
    std::optional<TimePoint> since;
  };

  void update(SlotRing& ring, Start& start, LiveRow& row);
  void share_progress();

  const Live live_;
  const LiveSource source_;
  std::vector<Start> starts_;
  std::vector<LiveRow> rows_;
};

}  // namespace leat::feeder
