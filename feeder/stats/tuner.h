// Autotune: changes the number of workers and the prefetch depth while the loop runs, by its
// measurements. All slots are allocated beforehand. The tuner holds back the slots not in use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "leat/csp/bell.h"
#include "leat/csp/channel.h"
#include "leat/csp/semaphore.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/slots/slot_ring.h"
#include "leat/feeder/stats.h"

namespace leat::feeder {

/// How much of its maxima a prefetcher uses.
struct Active {
  std::size_t workers = 1;
  std::size_t prefetch_depth = 2;
  std::size_t pinned_slots = 2;  // for each device
};

/// The stage that tunes the others: run() is the body of a fiber.
///
/// Always true: the tuner has every slot that is not active, except those that it is still to take
/// back. It gets these when their batches are copied. Permits limit the readers to the number of
/// active workers.
class Tuner {
 public:
  /// Holds back the slots beyond `active`, and gives the others to `free_pinned` and to the rings'
  /// channels of free slots.
  Tuner(const Autotune& limits, const Active& active, std::size_t max_leases,
        std::vector<std::shared_ptr<SlotRing>> rings, Channel<PinnedSlot*> free_pinned);

  void run();
  /// A batch was staged. From time to time this makes run() look at the measurements. Does not
  /// block.
  void staged();
  /// A pinned slot is free. Returns true if the tuner takes it back. Thread-safe.
  [[nodiscard]] bool takes_back(PinnedSlot& slot);
  /// Called when a reader begins, and ends, a batch. begin_read() waits for a permit.
  void begin_read() { permits_.acquire(); }
  void end_read() { permits_.release(); }

  /// Returns the pinned slots of each device in use, except those still to take back. Thread-safe.
  [[nodiscard]] std::size_t pinned_slots() const noexcept {
    return pinned_slots_.load(std::memory_order_relaxed);
  }
  /// Adds the current shape and the decisions so far. Thread-safe.
  void add_to(Stats& stats) const;

 private:
  void look();
  void set_workers(std::size_t workers, const std::string& why);
  void set_depth(std::size_t depth, const std::string& why);
  void set_pinned();
  void give_pinned(std::size_t ring);
  void set_shape();
  void note(const char* what, std::size_t from, std::size_t to, const std::string& why);
  [[nodiscard]] std::size_t device_slots(std::size_t depth) const noexcept {
    return max_leases_ + depth - 1;
  }

  const Autotune limits_;
  const std::size_t max_leases_;
  const std::vector<std::shared_ptr<SlotRing>> rings_;
  const Channel<PinnedSlot*> free_pinned_;
  Bell time_to_look_{"autotune"};
  Semaphore permits_;
  const Active start_;
  Active active_;
  std::atomic<std::size_t> pinned_slots_;               // active_.pinned_slots
  std::vector<std::vector<DeviceSlot*>> spare_device_;  // one list for each ring
  std::vector<StatsCollector::Window> windows_;
  std::atomic<std::uint64_t> staged_{0};
  mutable std::mutex mutex_;  // never held across a park; guards what follows
  std::vector<std::vector<PinnedSlot*>> spare_pinned_;  // one list for each ring
  std::vector<std::size_t> owed_;                       // slots of each ring to take back
  std::uint64_t decided_ = 0;
  std::deque<Decision> decisions_;  // the latest decisions
};

}  // namespace leat::feeder
