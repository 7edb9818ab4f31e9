// The prefetcher: batches on the device, one step ahead of the loop that uses them.
//
// Example: in a trainer that already exists
//   leat::feeder::Mnist data("data/mnist", leat::feeder::Mnist::kTrain);
//   leat::feeder::Prefetcher feed(data, leat::gpu::open("auto"), {.batch_size = 64, .seed = 1});
//   for (std::uint64_t epoch = 0; epoch < 3; ++epoch)
//     for (leat::feeder::Lease& batch : feed.epoch(epoch, stream))
//       train_step(batch["image"], batch["label"], stream);
//                              // end of the body: the slot goes back, by an event on the stream
//
// Reader fibers decode samples straight into pinned slots, a copier enqueues their copies to device
// slots on a stream of its own, and the consumer's stream waits for the copy on the device: the
// host synchronises nowhere in the steady state, and runs ahead of the device as far as there are
// slots. The batch in use is never overwritten (see feeder/lease.h).
//
// Made on a fiber, a Prefetcher uses that fiber's scheduler; made on a plain thread, it owns one.
//
// Timing, with P pinned and d device slots, W workers, for batch k: it is read at r_k, staged at
// c_k and done with at m_k, where
//   r_k = max(r_{k-W}, c_{k-P}) + Tread
//   c_k = max(r_k, c_{k-1}, m_{k-d}) + Tx
//   m_k = max(c_k, m_{k-1}) + Tc
// On the host device under virtual time every instant equals this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>

#include "leat/csp/scheduler.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/lease.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/stats.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

class Epoch;

/// Feeds the batches of a dataset to one device. Epochs come in any order that the consumer asks
/// for; the one after the current one is prefetched already.
///
/// One consumer at a time: epoch(), next() and the loops over them on one fiber or thread. stats()
/// from any. The destructor stops the stages and joins them, at any moment; leases may outlive it.
/// The dataset must outlive it.
class Prefetcher {
 public:
  /// Allocates every slot. Throws std::invalid_argument for options that cannot work (batch_size 0
  /// and the like, naming the option), GpuError where there is not enough memory.
  Prefetcher(const Dataset& dataset, const gpu::Device& device, const PrefetcherOptions& options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The batches of `epoch`, from the first, each bound to `stream`. Lazy: nothing happens before
  /// begin(). Leaving the loop early is fine.
  [[nodiscard]] Epoch epoch(std::uint64_t epoch, const gpu::StreamRef& stream);
  /// As above, unbound: for the CPU on the host device, or to bind streams by Lease::on.
  [[nodiscard]] Epoch epoch(std::uint64_t epoch);

  /// The next batch, unbound; std::nullopt at the end of the epoch, after which the next one begins
  /// (the first is 0). Waits for a batch to be staged. Throws std::logic_error if max_leases leases
  /// are held, what a stage failed with (once; leat::Error ever after), and Cancelled.
  [[nodiscard]] std::optional<Lease> next();

  [[nodiscard]] std::uint64_t batches_per_epoch() const noexcept;
  /// What was measured so far.
  [[nodiscard]] Stats stats() const;

 private:
  friend class Epoch;
  void start(std::uint64_t epoch);
  /// The next batch will be used on `stream`.
  void announce(const gpu::StreamRef& stream);

  struct Parts;
  std::unique_ptr<Parts> parts_;
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
  friend class Prefetcher;
  Epoch(Prefetcher& feed, std::uint64_t number, std::optional<gpu::StreamRef> stream)
      : feed_(feed), number_(number), stream_(std::move(stream)) {}
  void advance();

  Prefetcher& feed_;
  std::uint64_t number_;
  std::optional<gpu::StreamRef> stream_;
  std::optional<Lease> current_;
};

}  // namespace leat::feeder
