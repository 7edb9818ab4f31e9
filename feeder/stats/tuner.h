// Autotune: changes the number of workers and the prefetch depth while the loop runs, by the
// measurements. All slots are allocated beforehand; the tuner holds back those that are not in use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/semaphore.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/slots/slot_ring.h"
#include "leat/feeder/stats.h"

namespace leat::feeder {

/// What a prefetcher uses of what it has.
struct Active {
  std::size_t workers = 1;
  std::size_t prefetch_depth = 2;
  std::size_t pinned_slots = 2;  // of each device
};

/// The stage that tunes the others: run() is the body of a fiber.
///
/// Always true: a slot that is not active is with the tuner; as many readers have a permit as there
/// are active workers.
class Tuner {
 public:
  /// Holds back the slots beyond `active`, and gives the others to `free_pinned` and to the rings'
  /// channels of free slots.
  Tuner(const Autotune& limits, const Active& active, std::size_t max_leases,
        std::vector<std::shared_ptr<SlotRing>> rings, Channel<PinnedSlot*> free_pinned);

  void run();
  /// A batch was staged: from time to time run() looks at what was measured. Does not wait.
  void staged();
  /// A reader begins, and ends, a batch.
  void begin_read() { permits_.acquire(); }
  void end_read() { permits_.release(); }

  /// Adds what it has done so far. Thread-safe.
  void add_to(Stats& stats) const;

 private:
  void look();
  void set_workers(std::size_t workers, const std::string& why);
  void set_depth(std::size_t depth, const std::string& why);
  void add_pinned(std::size_t slots);
  void note(const char* what, std::size_t from, std::size_t to, const std::string& why);
  [[nodiscard]] std::size_t device_slots(std::size_t depth) const noexcept {
    return max_leases_ + depth - 1;
  }

  const Autotune limits_;
  const std::size_t max_leases_;
  const std::vector<std::shared_ptr<SlotRing>> rings_;
  const Channel<PinnedSlot*> free_pinned_;
  const Channel<bool> looks_;  // capacity 1: it is time to look
  Semaphore permits_;
  Active active_;
  std::vector<std::vector<PinnedSlot*>> spare_pinned_;  // of each ring
  std::vector<std::vector<DeviceSlot*>> spare_device_;
  std::vector<StatsCollector::Window> windows_;
  std::atomic<std::uint64_t> staged_{0};
  mutable std::mutex mutex_;
  std::uint64_t decided_ = 0;
  std::deque<Decision> decisions_;  // the latest of them
};

}  // namespace leat::feeder
