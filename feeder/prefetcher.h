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
// Made on a fiber, a Prefetcher uses that fiber's scheduler; made on a plain thread, that of a host
// device which was opened on one, or else it owns one. Reads run there unless their dataset says
// that they block (feeder/dataset.h): slow ones that do not say so hold up what else is there, the
// other prefetchers of that host device and the device itself.
//
// Timing, with P pinned and d device slots, W workers, for batch k: it is read at r_k, staged at
// c_k and done with at m_k, where
//   r_k = max(r_{k-W}, c_{k-P}) + Tread
//   c_k = max(r_k, c_{k-1}, m_{k-d}) + Tx
//   m_k = max(c_k, m_{k-1}) + Tc
// On the host device under virtual time every instant equals this. With D devices, which share the
// workers, the j-th shard to be read is that of rank j mod D of batch j div D: its first line is
//   r_j = max(r_{j-W}, c_{j-PD}) + Tread
// and the others hold for each device by itself.
// The mean of Tstep is hence max(Tread D / W, Tx, Tc, (Tx + Tc) / d, (Tread + Tx) / P).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/failures.h"
#include "leat/feeder/feed.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// Feeds the batches of a dataset to one device, or to several.
///
/// Each rank's feed has one consumer (feeder/feed.h); state(), stats() and failed_samples() may be
/// called from anywhere. The destructor stops the stages and joins them, at any moment and on any
/// thread; it waits for the reads that are under way. By then no consumer may be in a call, nor
/// come back for another one: a loop that is elsewhere is ended by stop(), and joined. Leases may
/// outlive it; the dataset must.
class Prefetcher {
 public:
  /// Allocates every slot. Throws std::invalid_argument for options that cannot work (batch_size 0
  /// and the like, naming the option; slots that sum up to more than a cap, naming the sum),
  /// leat::Error for a state to resume from that is damaged or of another run, GpuError where there
  /// is not enough memory.
  Prefetcher(const Dataset& dataset, const gpu::Device& device, const PrefetcherOptions& options);
  /// To several devices, rank by rank.
  Prefetcher(const Dataset& dataset, const std::vector<gpu::Device>& devices,
             const PrefetcherOptions& options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Ends it, from any thread or fiber; does not wait. Who waits for a batch, or asks for one, gets
  /// what is staged and then leat::Error; a receiver that waits for a lease to be released, at
  /// once; reads that are under way go on, and the destructor waits for them. state() stays as it
  /// is.
  void stop() noexcept;

  /// The feed of the i-th device. Throws std::out_of_range.
  [[nodiscard]] Feed& rank(std::size_t i);
  /// How many there are.
  [[nodiscard]] std::size_t ranks() const noexcept;

  /// Of the only device, as Feed's. Throw std::logic_error where there are several: which one is
  /// meant?
  [[nodiscard]] Epoch epoch(std::uint64_t epoch, const gpu::StreamRef& stream);
  [[nodiscard]] Epoch epoch(std::uint64_t epoch);
  [[nodiscard]] Receiver<Lease> receiver(std::uint64_t epoch, const gpu::StreamRef& stream);
  [[nodiscard]] Receiver<Lease> receiver(std::uint64_t epoch);
  [[nodiscard]] std::optional<Lease> next();
  [[nodiscard]] Stats stats() const;
  void reset_stats();

  /// What there is to tell, in several lines: of each rank the overlap table, the rate of its
  /// copies and what reading computes, in core-seconds for 1e9 bytes (not known in virtual time);
  /// what the slots take of which caps, samples that were left out, what autotune did last.
  [[nodiscard]] std::string report() const;

  /// Global batches of a whole epoch.
  [[nodiscard]] std::uint64_t batches_per_epoch() const noexcept;
  /// Where the run stands, for PrefetcherOptions::resume (feeder/state.h).
  [[nodiscard]] std::string state() const;
  /// The samples that were left out because they failed, within PrefetcherOptions::read_failures
  /// and transform_failures: the first 10,000 (kMostListed). Stats::failed_samples counts all.
  [[nodiscard]] std::vector<FailedSample> failed_samples() const;

 private:
  [[nodiscard]] Feed& only() const;

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace leat::feeder
