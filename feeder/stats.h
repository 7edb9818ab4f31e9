// Where the time of a step goes: how busy each stage is, and what limits the loop.
//
// Example
//   std::puts(feed.stats().table().c_str());
//
// docs/guide/overlap.md#words defines Tread, Tx, Tc, Tstep, OE and the other words. More exactly:
//   Tc      is measured in the loop, hence while copies run
//   Tstep   with a receiver, a step ends when its batch is released or when the next batch is first
//           used (by on(), await(), or for its tensors), whichever is earlier
//   feed efficiency
//           max(Tread x devices / workers, Tx, Tc) / Tstep
//   hidden  (Tc + Tx - Tstep) / min(Tc, Tx). 1: all is hidden. 0: copies and compute take turns
//   busy, starved, blocked
//           (in tables: a stage works, waits, is ahead; the consumer does other things) of each
//           stage, two are measured; the third is the rest of the step:
//   reader    busy: Tread x devices / workers; blocked: the rest, while no pinned slot is free
//   copier    busy: Tx; blocked: no device slot was released; starved: the rest, in which no filled
//             slot had reached the copy stream, because there was none or the host was late
//   consumer  busy: Tc; starved: waits for a batch; blocked: the rest, between the end of a step
//             and the next request, in which the loop does other things
//
// A reader may be blocked while the copier is starved: with few pinned slots, all of them may be
// between the two.
//
// Device times come from timed events on sampled steps (PrefetcherOptions::sample_every); the
// program needs no instrumentation. A consumer that binds no stream is measured on the host, at
// every step. Its work on a batch begins when it has the batch or, if it waits for the copy
// (await(), await_until(), tensors(), an export), after that wait. Waiting for the copy counts as
// starved, even if the next batch was already requested. Copies are timed as often as for other
// consumers: until the first copy is timed, Tx is unknown, and so are the figures that need it.
//
// The first step of an epoch is not measured, because nothing tells when it began. If each epoch
// has only one batch, a step lasts from one epoch to the next, and includes what the loop does
// between them. In virtual time, a consumer outside the scheduler of the stages is not measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace leat::feeder {

/// The shares of the step in which a stage is busy, starved and blocked. They add up to 1; all are
/// 0 while they are not known.
struct StageShares {
  double busy = 0;
  double starved = 0;
  double blocked = 0;
  /// Returns whether the shares are known.
  [[nodiscard]] bool is_known() const noexcept { return busy + starved + blocked > 0; }
};

/// What keeps a step from being shorter.
enum class Limit : std::uint8_t {
  kConsumer,     // Tc, and what the loop does between two batches
  kLink,         // Tx
  kReaders,      // Tread / workers
  kCpus,         // what reading computes, over all CPUs
  kDeviceSlots,  // Tx + Tc, over the device slots
  kPinnedSlots,  // Tread + Tx, over the pinned slots
};
/// "the consumer", "the link", ...
[[nodiscard]] const char* to_string(Limit limit) noexcept;

/// Other options, for Stats::what_if(). 0: unchanged.
struct Change {
  std::size_t workers = 0;
  std::size_t device_slots = 0;  // max_leases + prefetch_depth - 1
  std::size_t pinned_slots = 0;  // of each device
};

/// What would happen with other options.
struct Prediction {
  double t_step = 0;  // seconds
  double gain = 0;    // how much faster the loop would be; 0.18: +18 %
  Limit limit = Limit::kConsumer;
};

/// A change that autotune has made (PrefetcherOptions::autotune).
struct Decision {
  std::uint64_t batch = 0;  // batches staged before, over all devices
  std::string what;         // "workers", "prefetch_depth"
  std::size_t from = 0;
  std::size_t to = 0;
  std::string why;
};

/// The most entries of Stats::decisions, which has the latest.
constexpr std::size_t kMostDecisions = 256;

/// Quantiles are of the latest sampled steps, at most this many.
constexpr std::size_t kLatestSteps = 4096;

/// Quantiles, in seconds. Of n steps, the p-quantile is the ceil(p n)-th smallest.
struct Quantiles {
  double p50 = 0;
  double p99 = 0;
};

/// A snapshot of a feed's measurements. A value. Times are means, in seconds, and 0 while there is
/// no sample. "Without samples" below means: no step was sampled, or no copy was timed.
struct Stats {
  std::uint64_t batches = 0;         // released
  std::uint64_t sampled_steps = 0;   // Tc and Tstep are their means
  std::uint64_t timed_copies = 0;    // Tx is their mean; 0: Tx is not known
  std::uint64_t reordered = 0;       // batches that overtook an earlier one
  std::uint64_t most_overtaken = 0;  // the most batches that one batch overtook
  std::uint64_t failed_samples = 0;  // left out, within the budgets; over all devices
  std::size_t workers = 0;
  std::size_t devices = 1;  // that share the workers
  std::size_t prefetch_depth = 0;
  std::size_t device_slots = 0;
  std::size_t pinned_slots = 0;
  std::uint64_t ring_bytes = 0;  // of the pinned slots in use, over all devices
  /// Bytes that readers copied past the CPU's caches, over all devices (sample.h). 0: memcpy()
  /// copies.
  std::uint64_t past_cache_bytes = 0;
  double batch_bytes = 0;  // mean, as copied
  double t_read = 0;
  double t_read_cpu = 0;  // CPU time within Tread (0 in virtual time)
  std::size_t cpus = 0;   // CPUs that readers may use; 0: no limit
  /// Mean bytes that the disk had to fetch for a batch, including what the kernel reads ahead. 0 in
  /// virtual time, for data of Blocking::kNever, and on file systems that do not count them (FUSE).
  double cold_bytes = 0;
  double hot_bytes = 0;     // the rest of batch_bytes: it was in memory, or is computed
  double major_faults = 0;  // mean, of the reader in a batch: pages that it has waited for
  double t_x = 0;
  double t_c = 0;
  double t_step = 0;
  /// The standard error of t_step: only some steps are sampled, and steps may differ. 0 if every
  /// step is measured.
  double t_step_error = 0;
  double samples_per_second = 0;  // mean samples of a batch / Tstep
  /// The Tc of steps that ended with an idle device, as a share of all steps' time. 0 without
  /// streams.
  double idle_ends = 0;
  Quantiles step;    // of Tstep
  Quantiles bubble;  // of Tstep - max(Tc, Tx); at least 0
  StageShares reader;
  StageShares copier;
  StageShares consumer;
  std::uint64_t decided = 0;  // changes that autotune has made
  /// The latest kMostDecisions changes. After a change, the means begin anew.
  std::vector<Decision> decisions;

  /// Returns whether a step was sampled and a copy timed.
  [[nodiscard]] bool is_measured() const noexcept {
    return t_step > 0 && (timed_copies > 0 || t_x > 0);
  }
  /// Returns whether t_c is only an upper bound of the device's work: idle_ends is above 0.1. Then
  /// t_c includes what the host does, or its wait for the device, because nothing tells when the
  /// device became idle. consumer.busy, OE, the feed efficiency and the hidden fraction are upper
  /// bounds too; the bubble is a lower bound.
  [[nodiscard]] bool t_c_is_upper_bound() const noexcept;
  /// Returns max(Tc, Tx) / Tstep; 0 without samples.
  [[nodiscard]] double overlap_efficiency() const noexcept;
  /// Returns max(Tread D / W, Tx, Tc) / Tstep; 0 without samples.
  [[nodiscard]] double feed_efficiency() const noexcept;
  /// (Tc + Tx - Tstep) / min(Tc, Tx), from 0 to 1; 1 if there is nothing to hide; 0 without
  /// samples.
  [[nodiscard]] double hidden_fraction() const noexcept;
  /// Returns the CPU seconds of readers for 1e9 bytes; 0 without samples.
  [[nodiscard]] double read_cpu_per_gb() const noexcept;
  /// Returns whether readers mostly wait for the disk: at least an eighth of the bytes are cold
  /// (decoded batches have more bytes than their files) or a batch has major faults; at least a
  /// quarter of Tread is waiting; and reading keeps the CPUs busy for less than 3/4 of the step,
  /// because readers may wait for CPUs as well.
  [[nodiscard]] bool waits_for_disk() const noexcept;
  /// Returns the bytes that the disk gives in a second; 0 without samples.
  [[nodiscard]] double disk_rate() const noexcept;
  /// Predicts a step with other options, by the formula for the mean step (feeder/prefetcher.h):
  /// max(Tc + rest of the loop, Tx, Tread D / W, (Tx + Tc) / d, (Tread + Tx) / P), with W workers
  /// for D devices, P pinned and d device slots, and at least the CPU time of reading divided by
  /// the CPUs. The prediction is the measured Tstep, times the formula's value with the change,
  /// divided by its value today. Zeros without samples.
  [[nodiscard]] Prediction what_if(const Change& change) const noexcept;
  /// Returns one sentence: which stage limits the loop, what would help, and how much.
  [[nodiscard]] std::string bottleneck() const;
  /// Returns a line on why copies into pinned memory bypass the caches; empty if they do not.
  [[nodiscard]] std::string copies_text() const;
  /// Returns the stages' shares in words, a line for each. Shares below 1 % are left out.
  [[nodiscard]] std::string shares_table() const;
  /// Returns the overlap table, in several lines: bottleneck(); t_step and step.p99; the time and
  /// the shares of each stage; OE, the mean bubble and the hidden fraction. If the shorter of Tc
  /// and Tx is below a twentieth of the longer, and the longer at least nine tenths of the step, OE
  /// is nearly 1 whether they overlap or not: a sentence then says so instead.
  [[nodiscard]] std::string table() const;
};

}  // namespace leat::feeder
