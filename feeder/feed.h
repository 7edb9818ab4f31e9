// A feed: the consumer's end of a prefetcher, one for each device.
//
// Example: two devices in one process, each with a thread of its own
//   leat::feeder::Prefetcher prefetcher(data, {gpu0, gpu1}, {.batch_size = 256});
//   std::thread other([&] { train(prefetcher.rank(1), stream1); });
//   train(prefetcher.rank(0), stream0);
//   ...
//   void train(leat::feeder::Feed& feed, cudaStream_t stream) {
//     for (leat::feeder::Lease& batch : feed.epoch(0, leat::gpu::StreamRef::from_native(...)))
//       step(batch, weight = batch.size() / batch.step_size());   // size() may be 0
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/feeder/batch_source.h"
#include "leat/feeder/lease.h"
#include "leat/feeder/stats.h"
#include "leat/gpu/stream.h"

namespace leat::gpu {
class Device;
}  // namespace leat::gpu

namespace leat::feeder {

class Consumer;
class Epoch;

/// The batches of one rank. A consumer may ask for any epoch; the epoch after the current one is
/// prefetched already (PrefetcherOptions::read_across_epochs).
///
/// One consumer at a time: epoch(), receiver(), start(), next(), next_until() and the loops over
/// their results run on one fiber or thread. Other ranks may have other fibers or threads. A
/// Receiver may be used from several. stats() is thread-safe.
class Feed {
 public:
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  ~Feed();

  /// Returns the batches of `epoch`, from the first, each bound to `stream`. After a resume, the
  /// epoch that was under way has only the batches that are left. Nothing happens before begin().
  /// The loop may be left early: `break` releases the batch in use, unless it was abandoned; an
  /// exception abandons it.
  [[nodiscard]] Epoch epoch(std::uint64_t epoch, const gpu::StreamRef& stream);
  /// As above, without a stream: for the CPU on the host device, or to bind streams by Lease::on().
  [[nodiscard]] Epoch epoch(std::uint64_t epoch);

  /// Returns the same batches as a channel, for a loop that selects over them beside timers, other
  /// feeds and other channels. Begins `epoch` at once, and ends a receiver that is still open.
  /// While the receiver is open, next() throws std::logic_error. Throws std::invalid_argument for
  /// another device's stream, std::logic_error as next() does with dynamic sharing, Cancelled.
  ///
  /// The channel is closed
  /// - at the end of the epoch, without a cause;
  /// - after a failure, with the failure as its cause, which each further receive rethrows;
  /// - with a leat::Error as its cause, when this feed begins another receiver() or epoch() loop;
  /// - with a leat::Error as its cause, when the prefetcher is stopped or destroyed.
  ///
  /// A fiber of the prefetcher sends the batches, on a channel without a buffer:
  /// - It takes a batch once fewer than max_leases leases exist. The lease it sends counts, too.
  /// - A consumer that holds max_leases leases and receives waits until one of them is released.
  /// - If a plain thread is to release that lease, a fiber of run() that receives needs a
  ///   leat::OutsideWork. Otherwise the fiber's scheduler reports a deadlock.
  /// - A lease that is never received is abandoned.
  /// - A lease binds `stream` when it is first used (feeder/lease.h). `stream` must outlive the
  ///   leases that were used.
  /// - In the stats, the consumer is starved while it waits for a batch, from the moment when a
  ///   lease is free and the batch before has been received. If the consumer still holds the batch
  ///   before, its wait is part of Tc (feeder/stats.h).
  [[nodiscard]] Receiver<Lease> receiver(std::uint64_t epoch, const gpu::StreamRef& stream);
  /// As above, without a stream.
  [[nodiscard]] Receiver<Lease> receiver(std::uint64_t epoch);

  /// Returns the next batch, without a stream; std::nullopt at the end of the epoch, after which
  /// the next epoch begins. The first epoch is that of a resumed state, or 0. Waits until a batch
  /// is staged. Throws std::logic_error if max_leases leases are held or a receiver is open. Throws
  /// the failure of a stage once; later calls throw leat::Error. Throws Cancelled.
  ///
  /// With Sharing::kStatic, each rank gets a batch, perhaps an empty one, for each step of an
  /// epoch, so that all ranks can reduce together.
  ///
  /// With Sharing::kDynamic there are no steps, and epochs only go forward, for all ranks together.
  /// A rank gets the batches of an epoch that no other rank has taken. To begin an epoch that this
  /// rank has finished or left throws std::logic_error. If a rank leaves an epoch early, its
  /// batches that no other rank takes are lost.
  [[nodiscard]] std::optional<Lease> next();

  /// Begins `epoch` from its first batch (after a resume: with what is left of it): next() and
  /// next_until() return its batches. Ends a receiver that is open. Does not wait for a batch.
  /// Throws as Epoch::begin() does, except for the failure of a stage.
  void start(std::uint64_t epoch);

  /// With Order::kDrawn: gives the epoch that was begun last its next batch, `keys`. Batches are
  /// filled as slots become free, and counted by their numbers. After a resume, the epoch is drawn
  /// from its first batch again; what was released is left out. Does not wait.
  void draw(DrawnKeys keys);
  /// With Order::kDrawn: that epoch has no more batches.
  void end_draws();

  /// As next(), but at most until `deadline`, a time of the caller's clock (leat::now()). Returns
  /// - ChannelStatus::ok, and the batch in `lease`. A batch that is staged is returned also after
  ///   the deadline;
  /// - ChannelStatus::closed at the end of the epoch;
  /// - ChannelStatus::timed_out. The next call of next() or next_until() goes on with the same
  ///   request. State, order and stats are as if one call had waited as long: in the stats, the
  ///   consumer is starved from the first of these calls on.
  ///
  /// Releases the batch that `lease` holds before it asks. `lease` is empty unless it returns ok.
  [[nodiscard]] ChannelStatus next_until(std::optional<Lease>& lease, TimePoint deadline);
  /// As above, and binds the lease to `stream`, as a loop over epoch(number, stream) does: the
  /// first call of a request also announces the stream, for the stats. Throws as Lease::on() does;
  /// the batch is then in `lease`.
  [[nodiscard]] ChannelStatus next_until(std::optional<Lease>& lease, TimePoint deadline,
                                         const gpu::StreamRef& stream);

  /// Returns the rank of the world that this feed serves.
  [[nodiscard]] std::size_t rank() const noexcept;
  /// Returns the device that holds the batches.
  [[nodiscard]] const gpu::Device& device() const noexcept;
  /// Returns the number of global batches in a whole epoch.
  [[nodiscard]] std::uint64_t batches_per_epoch() const noexcept;
  /// Returns what was measured since the beginning, or since reset_stats(). Thread-safe.
  [[nodiscard]] Stats stats() const;
  /// Measures anew from here on, for instance after warming up. failed_samples and the decisions of
  /// autotune are not reset. Thread-safe.
  void reset_stats();

 private:
  friend class Prefetcher;
  explicit Feed(std::unique_ptr<Consumer> consumer) noexcept;

  const std::unique_ptr<Consumer> consumer_;
};

/// The batches of one epoch as a range, for one pass. Must not outlive its feed.
class Epoch {
 public:
  /// An input iterator; the loop's end is std::default_sentinel.
  class Iterator {
   public:
    using value_type = Lease;
    using difference_type = std::ptrdiff_t;
    /// The current batch.
    Lease& operator*() const noexcept { return *epoch_->current_; }
    /// The current batch.
    Lease* operator->() const noexcept { return &*epoch_->current_; }
    /// Releases the batch, then waits for the next one. Throws as Feed::next().
    Iterator& operator++() {
      epoch_->advance();
      return *this;
    }
    /// As the prefix operator; returns nothing.
    void operator++(int) { ++*this; }
    /// Whether the epoch has no more batches.
    friend bool operator==(const Iterator& it, std::default_sentinel_t) noexcept {
      return it.at_end();
    }

   private:
    friend class Epoch;
    [[nodiscard]] bool at_end() const noexcept { return !epoch_->current_.has_value(); }
    explicit Iterator(Epoch& epoch) noexcept : epoch_(&epoch) {}
    Epoch* epoch_;
  };

  /// Begins the epoch and waits for its first batch. Throws as Feed::next(), and
  /// std::invalid_argument for an epoch beyond the last.
  [[nodiscard]] Iterator begin();
  /// Returns the end of the loop.
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend class Feed;
  Epoch(Consumer& consumer, std::uint64_t number, std::optional<gpu::StreamRef> stream)
      : consumer_(consumer), number_(number), stream_(std::move(stream)) {}
  void advance();

  Consumer& consumer_;
  std::uint64_t number_;
  std::optional<gpu::StreamRef> stream_;
  std::optional<Lease> current_;
};

}  // namespace leat::feeder
