// The thread that shows what a prefetcher does (feeder/live.h).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "leat/feeder/live.h"
#include "leat/feeder/live_screen.h"
#include "leat/feeder/live_text.h"
#include "leat/feeder/slot_ring.h"

namespace leat::feeder {

/// Shows, from its construction to its destruction, which shows once more. A plain thread: the
/// program may be all in virtual time, and a fiber that sleeps would hide a deadlock.
class LiveView {
 public:
  LiveView(const Live& live, std::vector<std::shared_ptr<SlotRing>> rings,
           std::uint64_t batches_per_epoch);
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  // Of one device: where the rates count from.
  struct Rates {
    StatsCollector::Window window;
    StatsCollector::Progress from;
    Clock::time_point since = Clock::now();
  };

  void run();
  void show();
  void update(std::size_t i);

  const Live live_;
  const std::vector<std::shared_ptr<SlotRing>> rings_;
  const std::uint64_t batches_per_epoch_;
  LiveScreen screen_;
  std::vector<Rates> rates_;
  std::vector<LiveRow> rows_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_over_ = false;
  std::thread thread_;  // the last: it uses all of these
};

}  // namespace leat::feeder
