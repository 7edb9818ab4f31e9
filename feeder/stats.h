// Where the time of a step goes: per stage busy, starved and blocked; Tread, Tx, Tc, Tstep, OE.
//
// Words (the same in the README and in every printout):
//   Tread   a reader fills one batch (host time)
//   Tx      all copies of one batch, on the device
//   Tc      the consumer's work on one batch, on the device: from the batch being there (and, where
//           several leases are held, the one before released) to its release. Measured in the loop,
//           hence under copies
//   Tstep   from one release to the next, on the device
//   OE      overlap efficiency = max(Tc, Tx) / Tstep; 1 is perfect
//   bubble  Tstep - max(Tc, Tx)
//   feed efficiency
//           max(Tread x devices / workers, Tx, Tc) / Tstep: 1 where the slowest stage sets the pace
//   hidden  (Tc + Tx - Tstep) / min(Tc, Tx): how much of the shorter of the two is hidden behind
//           the longer one; 1 is all of it, 0 is taking turns
//   busy / starved / blocked
//           a stage works / waits for input / is kept from working by what comes behind it; they
//           add up to 100 % of the step. Two are measured, the third is the rest:
//   reader    busy: Tread x devices / workers; blocked: the rest, in which it waits for a slot
//   copier    busy: Tx; blocked: no device slot was released; starved: the rest, in which no slot
//             that was filled had reached the copy stream, for lack of one or as the host was late
//   consumer  busy: Tc; starved: it waits for a batch; blocked: the rest, between the release of a
//             batch and the next request, in which the loop does other things
//
// A reader may be blocked while the copier is starved: with few pinned slots, all may be on their
// way between the two.
//
// Device times come from timed events on sampled steps (PrefetcherOptions::sample_every), which the
// user does not instrument. A consumer that binds no stream is measured on the host, every step,
// but copies are timed as often as for others: until the first one was, Tx is not known, nor is
// what comes of it. The first step of an epoch is never one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace leat::feeder {

/// Shares of the step; they add up to 1, or are zeros: not known.
struct StageShares {
  double busy = 0;
  double starved = 0;
  double blocked = 0;
  [[nodiscard]] bool is_known() const noexcept { return busy + starved + blocked > 0; }
};

/// What keeps a step from being shorter.
enum class Limit : std::uint8_t {
  kConsumer,     // Tc, and what the loop does between two batches
  kLink,         // Tx
  kReaders,      // Tread / workers
  kCpus,         // what reading computes, over all CPUs
  kDeviceSlots,  // Tx + Tc, over the slots that take turns
  kPinnedSlots,  // Tread + Tx, over the slots that take turns
};
/// "the consumer", "the link", ...
[[nodiscard]] const char* to_string(Limit limit) noexcept;

/// A prefetcher made otherwise; 0: as it is.
struct Change {
  std::size_t workers = 0;
  std::size_t device_slots = 0;  // max_leases + prefetch_depth - 1
  std::size_t pinned_slots = 0;  // of each device
};

/// What a step would take then, in seconds, and what would limit it; how much faster the loop would
/// be (0.18: +18 %).
struct Prediction {
  double t_step = 0;
  double gain = 0;
  Limit limit = Limit::kConsumer;
};

/// Something that autotune has changed (PrefetcherOptions::autotune).
struct Decision {
  std::uint64_t batch = 0;  // staged by then, over all devices
  std::string what;         // "workers", "prefetch_depth"
  std::size_t from = 0;
  std::size_t to = 0;
  std::string why;
};

/// Stats has the latest of them, up to this many.
constexpr std::size_t kMostDecisions = 256;

/// Quantiles are of so many sampled steps, the latest.
constexpr std::size_t kLatestSteps = 4096;

/// In seconds; of n steps the p-quantile is the ceil(p n)-th smallest.
struct Quantiles {
  double p50 = 0;
  double p99 = 0;
};

/// A snapshot of a prefetcher's measurements. Times are means, in seconds; 0 where there is no
/// sample yet. "Without samples" below: of steps, or of copies.
struct Stats {
  std::uint64_t batches = 0;         // released
  std::uint64_t sampled_steps = 0;   // that Tc and Tstep are means of
  std::uint64_t timed_copies = 0;    // that Tx is the mean of; 0: it is not known
  std::uint64_t reordered = 0;       // delivered before one that was begun earlier (as completed),
                                     // or held back for one (in order)
  std::uint64_t most_overtaken = 0;  // by any of them
  std::uint64_t failed_samples = 0;  // left out, within the budgets; over all devices
  std::size_t workers = 0;
  std::size_t devices = 1;  // that share the workers
  std::size_t prefetch_depth = 0;
  std::size_t device_slots = 0;
  std::size_t pinned_slots = 0;
  double batch_bytes = 0;  // mean, as copied
  double t_read = 0;
  double t_read_cpu = 0;  // of Tread, what it computes (0 in virtual time)
  std::size_t cpus = 0;   // that readers may compute on; 0: as many as it takes
  double t_x = 0;
  double t_c = 0;
  double t_step = 0;
  Quantiles step;    // of Tstep
  Quantiles bubble;  // of its excess over max(Tc, Tx); at least 0
  StageShares reader;
  StageShares copier;
  StageShares consumer;
  std::uint64_t decided = 0;        // how often autotune has changed something
  std::vector<Decision> decisions;  // the latest kMostDecisions of these; the means are of what was
                                    // measured since the last one

  /// Whether there are samples: of steps, and of copies.
  [[nodiscard]] bool is_measured() const noexcept {
    return t_step > 0 && (timed_copies > 0 || t_x > 0);
  }
  /// max(Tc, Tx) / Tstep; 0 without samples.
  [[nodiscard]] double overlap_efficiency() const noexcept;
  /// max(Tread D / W, Tx, Tc) / Tstep; 0 without samples.
  [[nodiscard]] double feed_efficiency() const noexcept;
  /// (Tc + Tx - Tstep) / min(Tc, Tx), between 0 and 1; 1 where there is nothing to hide; 0 without
  /// samples.
  [[nodiscard]] double hidden_fraction() const noexcept;
  /// Seconds of a CPU for 1e9 bytes, of what readers compute; 0 without samples.
  [[nodiscard]] double read_cpu_per_gb() const noexcept;
  /// What a step takes where nothing but the means below matters, by the formula for the mean step
  /// (feeder/prefetcher.h), with W workers for D devices, P pinned and d device slots:
  /// max(Tc + rest of the loop, Tx, Tread D / W, (Tx + Tc) / d, (Tread + Tx) / P), and no less than
  /// what reading computes, over the CPUs. As measured today, times what the formula says then over
  /// what it says today. Zeros without samples.
  [[nodiscard]] Prediction what_if(const Change& change) const noexcept;
  /// One sentence: which stage limits the loop, what would help, and how much.
  [[nodiscard]] std::string bottleneck() const;
  /// The stages' shares, as a table.
  [[nodiscard]] std::string shares_table() const;
  /// The overlap table: stages, times, OE and the bottleneck, in several lines.
  [[nodiscard]] std::string table() const;
};

}  // namespace leat::feeder
