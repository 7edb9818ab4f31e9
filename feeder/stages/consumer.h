// The consumer of one rank, which implements Feed: takes batches from the rank's ring as leases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/base/home_process.h"
#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/feeder/lease.h"
#include "leat/feeder/plan/requests.h"
#include "leat/feeder/slots/slots.h"
#include "leat/feeder/slots/staged.h"
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

/// Hands out the batches of one rank. For one fiber or thread at a time, plus the receiver's fiber
/// while a receiver is open. stats() and stop() are thread-safe.
class Consumer {
 public:
  /// What the Prefetcher passes in. All of it outlives the consumer.
  struct Params {
    std::shared_ptr<SlotRing> ring;
    Stages* stages;
    TaskGroup* forwarders;
    const SchedulerCore* scheduler;
    std::size_t rank;
    std::uint64_t batches;
    std::size_t max_leases;
    std::uint64_t first_epoch;
    bool is_shared;  // Sharing::kDynamic
  };
  explicit Consumer(const Params& params);

  /// Begins a pass over `epoch`, once end_receiver() has ended the receiver of the pass before.
  /// Throws std::invalid_argument if `epoch` exceeds the last one;
  /// std::logic_error if the epoch is over (dynamic sharing).
  void start(std::uint64_t epoch);
  /// The epoch that was begun last gets this draw.
  void draw(Draw draw);
  /// As Feed::next_until(). Null: no stream.
  [[nodiscard]] ChannelStatus next(std::optional<Lease>& lease, Deadline deadline,
                                   const gpu::StreamRef* stream);
  /// As Feed::receiver(). Each lease binds `stream`, if there is one, when it is first used.
  [[nodiscard]] Receiver<Lease> receiver(std::uint64_t epoch, std::optional<gpu::StreamRef> stream);
  /// Ends the latest receiver, and waits until its fiber no longer touches the consumer. Throws
  /// std::logic_error in a child of the process that made the consumer.
  void end_receiver();
  /// Ends a receiver that waits for a lease to be released. Thread-safe; does not block.
  void stop() noexcept;
  /// As Feed::stats().
  [[nodiscard]] Stats stats() const;

  [[nodiscard]] SlotRing& ring() const noexcept { return *ring_; }
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint64_t batches() const noexcept { return batches_; }

 private:
  struct ReceiverState;  // shared by the consumer and a receiver's fiber

  /// The right to a lease. Goes back to the ring when destroyed, unless a lease has it.
  class Credit {
   public:
    explicit Credit(SlotRing& ring) noexcept : ring_(&ring) {}
    Credit(Credit&& other) noexcept : ring_(std::exchange(other.ring_, nullptr)) {}
    Credit& operator=(Credit&&) = delete;
    ~Credit();
    void pass_on() noexcept { ring_ = nullptr; }

   private:
    SlotRing* ring_;
  };
  /// The consumer's request for a batch.
  struct BatchRequest {
    Credit credit;
    TimePoint since;
  };

  [[nodiscard]] BatchRequest ask(const gpu::StreamRef* stream);
  void begin(std::uint64_t epoch);
  [[nodiscard]] bool begin_static(std::uint64_t epoch);
  void forward(const ReceiverState& receiver);
  void check_not_failed() const;
  void note_failure();
  [[nodiscard]] ChannelStatus take(std::optional<Lease>& lease, BatchRequest& request,
                                   Deadline deadline, const ReceiverState* receiver);
  [[nodiscard]] std::optional<Staged> receive(Deadline deadline, const ReceiverState* receiver);
  void check(DeviceSlot& slot);

  const HomeProcess home_;
  const std::shared_ptr<SlotRing> ring_;
  Stages& stages_;
  TaskGroup& forwarders_;
  const SchedulerCore& scheduler_;  // the stages run on it
  const std::size_t rank_;
  const std::uint64_t batches_;
  const std::size_t max_leases_;
  const bool is_shared_;

  std::shared_ptr<ReceiverState> receiver_;  // the latest receiver's, if it may still be open
  const Channel<bool> stopped_{0, "the end of a feed"};  // closed by Prefetcher::stop()

  // Used by the consumer, or by the receiver's fiber while a receiver is open.
  std::uint64_t generation_ = 0;  // the latest request's; 0: no request yet
  std::vector<std::uint64_t> rests_;
  std::uint64_t next_epoch_;  // the epoch whose batches come next
  bool in_epoch_ = false;     // next_epoch_ was begun and has not ended
  PassId pass_;
  std::optional<BatchRequest> pending_;  // the request whose wait has timed out
  std::optional<Staged> early_;          // received, but of a later epoch (dynamic sharing)
  Turn latest_;                          // the batch that was handed out last
  std::string failure_;                  // text of the error that ended the stages, once seen
};

}  // namespace leat::feeder
