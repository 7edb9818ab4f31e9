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
// Reader fibers decode samples into pinned slots. A copier enqueues the copies to device slots on a
// stream of its own. The consumer's stream waits for the copy on the device. In the steady state
// the host synchronises nowhere: it runs ahead of the device as far as there are slots. The batch
// in use is never overwritten (feeder/lease.h).
//
// A Prefetcher that is made on a fiber uses that fiber's scheduler. On a plain thread it uses the
// scheduler of a host device that was opened on a fiber, if one of its devices is such a device;
// otherwise it owns a scheduler. Reads run on that scheduler, unless the dataset says that they
// block (feeder/dataset.h). A slow read that does not say so delays all else on that scheduler.
//
// Readers are at most as many batches ahead of the consumer as there are pinned slots and device
// slots without a lease.
//
// Timing, with P pinned and d device slots and W workers: batch k is read at r_k, staged at c_k,
// and finished at m_k, where
//   r_k = max(r_{k-W}, c_{k-P}) + Tread
//   c_k = max(r_k, c_{k-1}, m_{k-d}) + Tx
//   m_k = max(c_k, m_{k-1}) + Tc
// On the host device in virtual time, all times are exactly these. D devices share the workers: the
// j-th shard to be read is the shard of rank j mod D in batch j div D. The first line then is
//   r_j = max(r_{j-W}, c_{j-PD}) + Tread
// and the other lines hold for each device. The mean of Tstep is therefore
// max(Tread D / W, Tx, Tc, (Tx + Tc) / d, (Tread + Tx) / P).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/failures.h"
#include "leat/feeder/feed.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/receipt.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// Feeds the batches of a dataset to one device, or to several.
///
/// Each rank's feed has one consumer (feeder/feed.h). stop(), state(), check_resume(), stats(),
/// report(), stages() and failed_samples() are thread-safe. Leases may outlive the prefetcher; the
/// dataset must.
class Prefetcher {
 public:
  /// Allocates every slot. Throws std::invalid_argument for options that cannot work, naming the
  /// option, and for slots that exceed a cap, naming their sum; leat::Error if options.resume is
  /// damaged or of another run; OutOfMemory if there is not enough memory.
  Prefetcher(const Dataset& dataset, const gpu::Device& device, const PrefetcherOptions& options);
  /// For several devices: the i-th device has rank options.rank + i.
  Prefetcher(const Dataset& dataset, const std::vector<gpu::Device>& devices,
             const PrefetcherOptions& options);
  /// Stops the stages and waits for the reads that are under way. May be called at any moment, on
  /// any thread. No consumer may be in a call or make another one: first end a loop on another
  /// thread by stop(), and join it.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Ends the prefetcher. Thread-safe; does not wait. A consumer gets the batches that are staged,
  /// then leat::Error. A receiver that waits for a lease to be released ends at once. Reads that
  /// are under way continue; the destructor waits for them. state() does not change.
  void stop() noexcept;

  /// Returns the feed of the i-th device. Throws std::out_of_range.
  [[nodiscard]] Feed& rank(std::size_t i);
  /// Returns how many feeds there are: one for each device.
  [[nodiscard]] std::size_t ranks() const noexcept;

  /// As Feed::epoch() of the only device. This function and the nine below throw std::logic_error
  /// if there are several devices.
  [[nodiscard]] Epoch epoch(std::uint64_t epoch, const gpu::StreamRef& stream);
  /// As Feed::epoch() of the only device.
  [[nodiscard]] Epoch epoch(std::uint64_t epoch);
  /// As Feed::receiver() of the only device.
  [[nodiscard]] Receiver<Lease> receiver(std::uint64_t epoch, const gpu::StreamRef& stream);
  /// As Feed::receiver() of the only device.
  [[nodiscard]] Receiver<Lease> receiver(std::uint64_t epoch);
  /// As Feed::next() of the only device.
  [[nodiscard]] std::optional<Lease> next();
  /// As Feed::start() of the only device.
  void start(std::uint64_t epoch);
  /// As Feed::next_until() of the only device.
  [[nodiscard]] ChannelStatus next_until(std::optional<Lease>& lease, TimePoint deadline);
  /// As Feed::next_until() of the only device.
  [[nodiscard]] ChannelStatus next_until(std::optional<Lease>& lease, TimePoint deadline,
                                         const gpu::StreamRef& stream);
  /// As Feed::stats() of the only device.
  [[nodiscard]] Stats stats() const;
  /// As Feed::reset_stats() of the only device.
  void reset_stats();

  /// Returns a report in several lines:
  /// - for each rank the overlap table, samples a second, the rate of its copies, and the
  ///   core-seconds that reading takes for 1e9 bytes (not known in virtual time); for cold data,
  ///   what the disk had to fetch;
  /// - the memory that the slots and their checks take, and the caps on it;
  /// - how much of the pinned slots is in huge pages and on the device's NUMA node, and whether
  ///   readers copy into the slots past the CPU's caches;
  /// - how many samples were left out, and autotune's last change.
  [[nodiscard]] std::string report() const;

  /// Returns the number of global batches in a whole epoch.
  [[nodiscard]] std::uint64_t batches_per_epoch() const noexcept;
  /// Returns where the run stands, as a text for PrefetcherOptions::resume (feeder/state.h).
  [[nodiscard]] std::string state() const;
  /// As state(), with the batches of `receipts` counted as if each were committed; commits none.
  /// Thread-safe, if no other thread uses one of `receipts` meanwhile. Throws std::invalid_argument
  /// for an empty receipt, or one of another prefetcher.
  [[nodiscard]] std::string state(std::span<const Receipt* const> receipts) const;
  /// Throws as the constructor would for PrefetcherOptions::resume = `state`, with this
  /// prefetcher's dataset and options: leat::Error for a text that is damaged or of another run.
  /// Does nothing else. Thread-safe.
  void check_resume(std::string_view state) const;
  /// Returns what the prefetcher's fibers do now, a line for each: its name, what it waits for, and
  /// since when. A reader's line has the batch, since when it reads it, and the latest sample:
  /// "reader 0: reads batch 12 of epoch 1 for 3.20 s, now sample 789"; with a virtual clock, a
  /// caller outside gets no time. Empty once the fibers have ended. For messages of time-outs: a
  /// fiber that ends its wait meanwhile is held up until the lines are made. Throws
  /// std::logic_error in a forked child of the prefetcher's process. Thread-safe.
  [[nodiscard]] std::string stages() const;
  /// Returns the first kMostListed samples that failed and were left out, within
  /// PrefetcherOptions::read_failures and transform_failures. Stats::failed_samples counts all.
  [[nodiscard]] std::vector<FailedSample> failed_samples() const;

 private:
  [[nodiscard]] Feed& only() const;

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace leat::feeder
