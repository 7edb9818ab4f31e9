// The consumer of one rank: takes batches from its ring, as leases. What is behind a Feed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/feeder/lease.h"
#include "leat/feeder/stages/staged.h"
#include "leat/feeder/state/release_log.h"
#include "leat/feeder/stats.h"
#include "leat/gpu/stream.h"

namespace leat {
class SchedulerCore;
class TaskGroup;
}  // namespace leat

namespace leat::feeder {

class SlotRing;
class Stages;

/// Hands out the batches of one rank. Used by one fiber or thread at a time, and, while a receiver
/// is open, by the receiver's fiber; stats() and stop() are thread-safe.
class Consumer {
 public:
  struct Made {  // by the Prefetcher; all of it outlives the consumer
    std::shared_ptr<SlotRing> ring;
    Stages* stages;
    TaskGroup* forwarders;
    const SchedulerCore* scheduler;
    std::size_t rank;
    std::uint64_t batches;
    std::size_t max_leases;
    std::uint64_t first_epoch;
    bool is_shared;  // dynamically
  };
  explicit Consumer(const Made& made);

  /// Begins a pass over `epoch`. Throws std::invalid_argument for an epoch beyond the last,
  /// std::logic_error for one that is over (dynamic sharing).
  void start(std::uint64_t epoch);
  /// The next batch will be used on `stream`.
  void announce(const gpu::StreamRef& stream);
  /// As Feed::next().
  [[nodiscard]] std::optional<Lease> next();
  /// As Feed::receiver(). The leases are due to bind `stream`, if there is one.
  [[nodiscard]] Receiver<Lease> receiver(std::uint64_t epoch, std::optional<gpu::StreamRef> stream);
  /// Ends the latest receiver, and waits until its fiber does not touch the consumer any more.
  void end_receiver();
  /// Ends a receiver that waits for a lease to be released. From any thread; does not wait.
  void stop() noexcept;
  /// As Feed::stats().
  [[nodiscard]] Stats stats() const;

  [[nodiscard]] SlotRing& ring() const noexcept { return *ring_; }
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint64_t batches() const noexcept { return batches_; }

 private:
  struct Offers;  // what a receiver's fiber and the consumer share
  [[nodiscard]] bool start_static(std::uint64_t epoch);
  void forward(const Offers& offers);
  void check_not_failed() const;
  void note_failure();
  [[nodiscard]] std::optional<Lease> take(const Offers* offers);
  [[nodiscard]] Staged receive(const Offers* offers);
  void check(DeviceSlot& slot);

  const std::shared_ptr<SlotRing> ring_;
  Stages& stages_;
  TaskGroup& forwarders_;
  const SchedulerCore& scheduler_;  // of the stages
  const std::size_t rank_;
  const std::uint64_t batches_;
  const std::size_t max_leases_;
  const bool is_shared_;

  std::shared_ptr<Offers> offers_;  // of the latest receiver, if it may still be open
  const Channel<bool> stopped_{0, "the end of a feed"};  // closed by Prefetcher::stop()

  // The consumer's, and while a receiver is open its fiber's.
  std::uint64_t generation_ = 0;  // of the latest request; 0: nothing was requested yet
  std::vector<std::uint64_t> rests_;
  std::uint64_t next_epoch_;  // that follows in the stream of batches
  bool in_epoch_ = false;     // its beginning was consumed, its end was not
  PassId pass_;
  std::optional<Staged> early_;  // of an epoch to come (dynamic sharing)
  std::string failure_;          // why the stages have ended, once the consumer was told
};

}  // namespace leat::feeder
