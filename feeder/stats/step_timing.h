// Timed events of two successive steps, and the means over all that were sampled.
//
// A sampled pair of steps (k-1, k) leaves these marks (stats/batch_record.h):
//
//   copy stream     ... copy k-1 |kCopyEnds   |kQueued  ~~wait for the slot~~  |kCopyBegins
//                       copy k   |kCopyEnds
//   consumer stream ... step k-1 |kUseEnds    the rest of the loop   |kNextAsked
//                       ~~no batch is announced~~   |kArrived ~~wait for the batch~~ |kUseBegins
//                       step k   |kUseEnds
//
// The figures of step k:
//
//   Tx                kCopyBegins to kCopyEnds
//   Tstep             kUseEnds to kUseEnds
//   Tc                kUseBegins to kUseEnds
//   copier blocked    kQueued to kCopyBegins (no slot was released), and while its fiber had no
//                     slot to enqueue a copy for
//   consumer starved  kNextAsked to kUseBegins; if the stream is not known when the batch is
//                     asked for (as by next() without a stream), the host thread's wait replaces
//                     kNextAsked to kArrived
//
// kUseEnds is recorded when a step ends (docs/guide/overlap.md#words; with a receiver:
// feeder/stats.h).
//
// Both steps are in one epoch: the time between two epochs belongs to no step. If each epoch has
// only one batch, a step lasts from one epoch to the next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/state/release_log.h"
#include "leat/feeder/stats.h"
#include "leat/feeder/stats/batch_record.h"
#include "leat/feeder/stats/latest.h"
#include "leat/feeder/stats/step_sampling.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// The marks of one pair, and the notes of its holders.
struct StepTiming {
  explicit StepTiming(const gpu::Device& device)
      : first(device, {Mark::kCopyEnds, Mark::kUseEnds, Mark::kNextAsked}),
        second(device, {Mark::kQueued, Mark::kCopyBegins, Mark::kCopyEnds, Mark::kArrived,
                        Mark::kUseBegins, Mark::kUseEnds}) {}

  Marks first, second;  // of the two batches. The consumer's are missing if a step uses no stream
  Duration copier_blocked = Duration::zero();    // host: no device slot to copy into
  Duration consumer_starved = Duration::zero();  // host: no batch to bind
  bool was_idle = false;    // the stream had nothing left to do when the second step ended
  int holders = 0;          // the pair's two batches, and asked() while it runs
  std::uint64_t shape = 0;  // the prefetcher's when the timing was taken
};

/// The prefetcher that is measured.
struct StatsOptions {
  std::size_t workers = 1;
  std::size_t devices = 1;  // devices that share the workers
  std::size_t prefetch_depth = 2;
  std::size_t device_slots = 2;
  std::size_t pinned_slots = 2;
  std::size_t cpus = 0;           // CPUs that readers may compute on; 0: not known
  std::size_t sample_every = 16;  // measures one step in this many; 0: none
  bool crosses_epochs = false;    // each epoch has one batch: steps lead from one to the next
};

/// Collects the measurements of one device. Thread-safe.
class StatsCollector final : public Observer {
 public:
  /// Allocates all timings.
  StatsCollector(const gpu::Device& device, const StatsOptions& options);

  void read(BatchRecord& batch) noexcept override;
  /// Chooses the pairs. Called by the copier alone.
  void copy_begins(BatchRecord& batch) noexcept override;
  void copied(BatchRecord& batch) noexcept override;
  /// The host's part of a step whose batch is bound to no stream began when the step before ended.
  /// The first batch of a pass makes no step, because its beginning is not known.
  void step_ended(BatchRecord& batch) noexcept override;
  void given_back(BatchRecord& batch) noexcept override;
  /// The consumer asks for the next batch, which it will use on `stream`.
  void asked(const gpu::StreamRef& stream);
  /// A batch was delivered before `overtaken` batches that were begun earlier.
  void add_reordered(std::uint64_t overtaken) noexcept;

  /// Discards all measurements so far.
  void reset();
  /// Returns the figures since the shape was set, or since the last reset().
  [[nodiscard]] Stats snapshot();
  class Window;
  /// Returns the figures since `window` began, the shape was set, or the last reset(), whichever
  /// was last. If these are `enough` or more sampled steps, the window begins again.
  [[nodiscard]] Stats window(Window& window, std::uint64_t enough);
  /// How far the consumer is. Counts from the beginning, whatever reset() was called.
  struct Progress {
    std::uint64_t batches = 0;   // released batches
    std::uint64_t samples = 0;   // their samples
    std::uint64_t epoch = 0;     // the latest batch's epoch
    std::uint64_t in_epoch = 0;  // the epoch's batches up to the latest one
    // When the first and the latest batch were released, by the releasing caller's clock.
    // is_own_time: the latest caller's clock was that of the stages.
    TimePoint first_at;
    TimePoint latest_at;
    bool is_own_time = true;
  };
  [[nodiscard]] Progress progress();
  /// Sets what the prefetcher uses from now on. Earlier measurements do not count any more.
  void set_shape(std::size_t workers, std::size_t prefetch_depth, std::size_t device_slots,
                 std::size_t pinned_slots);

 private:
  struct Mean {
    double sum = 0;
    double squares = 0;
    std::uint64_t count = 0;
    void add(double value) noexcept {
      sum += value;
      squares += value * value;
      ++count;
    }
    /// Returns the standard error of value(); 0 for fewer than two values.
    [[nodiscard]] double error() const noexcept;
    [[nodiscard]] double value() const noexcept {
      return count == 0 ? 0 : sum / static_cast<double>(count);
    }
    friend Mean operator-(const Mean& a, const Mean& b) noexcept {
      return {.sum = a.sum - b.sum, .squares = a.squares - b.squares, .count = a.count - b.count};
    }
  };
  enum Figure : std::uint8_t {
    kRead,
    kReadCpu,
    kCold,
    kFaults,
    kBytes,
    kCopy,
    kCompute,
    kStep,
    kCopierBlocked,
    kConsumerStarved,
    kIdle,
    kHostBusy,
    kHostStarved,
    kHostStep,
    kSamples,
    kFigures
  };
  using Sums = std::array<Mean, kFigures>;
  [[nodiscard]] Sums since(const Sums& before) const noexcept;
  [[nodiscard]] Stats stats_of(const Sums& sums) const;
  [[nodiscard]] Sums filled_up(const Sums& sums) const noexcept;

  // Whether steps were timed on the device. If so, steps timed by the host do not count.
  [[nodiscard]] bool is_on_device() const noexcept {
    return sums_[kStep].count > at_shape_[kStep].count;
  }
  [[nodiscard]] StepPart next_part(bool is_last) noexcept;
  [[nodiscard]] StepTiming* take();
  void let_go(StepTiming& timing) noexcept;
  void begin_anew();
  void collect_finished();
  void measure(const StepTiming& timing);

  static constexpr std::size_t kTimings = 4;
  StatsOptions options_;
  std::deque<StepTiming> timings_;
  // For the copier alone: the pair that is sampled, and the pass of its first batch.
  StepSampling sampling_;  // of second steps
  StepTiming* pair_ = nullptr;
  std::uint64_t pair_generation_ = 0;
  std::uint64_t pair_epoch_ = 0;

  std::mutex mutex_;  // never held across a park
  std::vector<StepTiming*> free_;
  std::vector<StepTiming*> finishing_;
  StepTiming* between_ = nullptr;  // the pair whose second batch comes next
  std::uint64_t batches_ = 0;
  std::uint64_t reordered_ = 0;
  std::uint64_t most_overtaken_ = 0;
  Sums sums_{};
  LatestSteps latest_;       // since the shape was set
  std::uint64_t shape_ = 0;  // counts shapes: a pair taken in an earlier one is dropped
  Sums at_shape_{};          // sums_ when the shape was set
  Sums at_reset_{};          // sums_ at the last reset()
  Progress progress_;
  TimePoint host_ended_;  // the latest step of host_pass_
  PassId host_pass_ = PassId::kNone;
};

/// A stretch of the measurements. A new window begins when the current shape was set.
class StatsCollector::Window {
  friend class StatsCollector;
  Sums from_{};
  std::uint64_t shape_ = ~std::uint64_t{0};  // the shape that it began in; none yet
};

}  // namespace leat::feeder
