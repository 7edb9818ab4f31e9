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
#include "leat/feeder/lease.h"
#include "leat/feeder/stats.h"
#include "leat/gpu/stream.h"

namespace leat::gpu {
class Device;
}  // namespace leat::gpu

namespace leat::feeder {

class Consumer;
class Epoch;

/// The batches of one rank. Epochs come in any order that the consumer asks for; the one after the
/// current one is prefetched already.
///
/// One consumer at a time: epoch(), receiver(), next() and the loops over them on one fiber or
/// thread, which need not be that of another rank. A Receiver may go to others, too. stats() from
/// any.
class Feed {
 public:
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  ~Feed();

  /// The batches of `epoch`, from the first (after a resume: of the one that was under way, those
  /// that are left), each bound to `stream`. Lazy: nothing happens before begin(). Leaving the loop
  /// early is fine: break releases the batch in use unless it was abandoned, an exception abandons
  /// it.
  [[nodiscard]] Epoch epoch(std::uint64_t epoch, const gpu::StreamRef& stream);
  /// As above, unbound: for the CPU on the host device, or to bind streams by Lease::on.
  [[nodiscard]] Epoch epoch(std::uint64_t epoch);

  /// The same batches as a channel, for who selects over them, beside timers, other feeds and
  /// channels of his own. Begins `epoch` at once, and ends a receiver that is still open. The
  /// channel is closed at the end of the epoch; after a failure, with the failure as its cause, so
  /// that each further receive rethrows it; with a leat::Error as its cause when another receiver()
  /// or epoch() loop of this feed begins, or the prefetcher goes. Till then, next() throws
  /// std::logic_error. Throws std::invalid_argument for another device's stream, std::logic_error
  /// as next() does with dynamic sharing, Cancelled.
  ///
  /// A fiber of the prefetcher forwards: it takes a batch once fewer than max_leases leases exist,
  /// and offers it on a channel without a buffer; the lease that it offers is one of them. Whoever
  /// holds them all and receives waits until one is released, by whomever; where that is a plain
  /// thread, a fiber of run() waits under a leat::OutsideWork, or its scheduler sees a deadlock. A
  /// lease that nobody receives is abandoned. `stream` is bound when a lease is first used
  /// (feeder/lease.h), and must outlive those that were.
  ///
  /// In the stats, the consumer is starved where it waits when a batch comes: since there was
  /// credit for that one, and the one before it had been received.
  [[nodiscard]] Receiver<Lease> receiver(std::uint64_t epoch, const gpu::StreamRef& stream);
  /// As above, unbound.
  [[nodiscard]] Receiver<Lease> receiver(std::uint64_t epoch);

  /// The next batch, unbound; std::nullopt at the end of the epoch, after which the next one begins
  /// (the first is the one that a resumed state was in, else 0). Waits for a batch to be staged.
  /// Throws std::logic_error if max_leases leases are held, or a receiver is open; what a stage
  /// failed with (once; leat::Error ever after), and Cancelled.
  ///
  /// Each rank gets each step of an epoch, if need be as an empty batch, so that all ranks may
  /// reduce together.
  ///
  /// With Sharing::kDynamic there are no steps, and epochs only go forward, for all ranks together:
  /// one that asks for an epoch gets what the others have left of it, and std::logic_error for one
  /// that it has left. What a rank does not take of an epoch before it goes on is lost to all.
  [[nodiscard]] std::optional<Lease> next();

  /// Which rank of the world it is.
  [[nodiscard]] std::size_t rank() const noexcept;
  [[nodiscard]] const gpu::Device& device() const noexcept;
  /// Global batches of a whole epoch.
  [[nodiscard]] std::uint64_t batches_per_epoch() const noexcept;
  /// What was measured so far.
  [[nodiscard]] Stats stats() const;
  /// Measures anew from here on: what came before, to warm up for instance, counts no more. But
  /// failed_samples and the decisions of autotune are of the whole run.
  void reset_stats();

 private:
  friend class Prefetcher;
  explicit Feed(std::unique_ptr<Consumer> consumer) noexcept;

  const std::unique_ptr<Consumer> consumer_;
};

/// One epoch's batches as a range, for one pass.
class Epoch {
 public:
  class Iterator {
   public:
    using value_type = Lease;
    using difference_type = std::ptrdiff_t;
    Lease& operator*() const noexcept { return *epoch_->current_; }
    Lease* operator->() const noexcept { return &*epoch_->current_; }
    /// Releases the batch, then waits for the next.
    Iterator& operator++() {
      epoch_->advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) noexcept {
      return it.at_end();
    }

   private:
    friend class Epoch;
    [[nodiscard]] bool at_end() const noexcept { return !epoch_->current_.has_value(); }
    explicit Iterator(Epoch& epoch) noexcept : epoch_(&epoch) {}
    Epoch* epoch_;
  };

  /// Starts the epoch and waits for its first batch.
  [[nodiscard]] Iterator begin();
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
