// Timed events of two successive steps, and the means over all that were sampled.
//
// A sampled pair of steps (k-1, k) leaves these marks, each an event on the stream named:
//
//   copy stream     ... copy k-1 |copy_end_before   |queued  ~~wait for the slot~~  |copy_start
//                       copy k   |copy_end
//   consumer stream ... step k-1 |released_before   the rest of the loop   |asked
//                       ~~no batch is announced~~   |arrived ~~wait for the batch~~ |bound
//                       step k   |released
//
// The figures of step k:
//
//   Tx                copy_start to copy_end
//   Tstep             released_before to released
//   Tc                bound to released
//   copier blocked    queued to copy_start (no slot was released), and while its fiber had no slot
//                     to enqueue a copy for
//   consumer starved  asked to bound; if the stream is not known when the batch is asked for (as by
//                     next() without a stream), the host thread's wait replaces asked to arrived
//
// released_before and released are recorded when a step ends (docs/guide/overlap.md#words; with a
// receiver: feeder/stats.h).
//
// Both steps are in one epoch: the time between two epochs belongs to no step. If each epoch has
// only one batch, a step lasts from one epoch to the next.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/feeder/state/release_log.h"
#include "leat/feeder/stats.h"
#include "leat/feeder/stats/latest_steps.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// The marks of one pair, and the notes of its holders.
struct StepTiming {
  explicit StepTiming(const gpu::Device& device);

  gpu::Event copy_end_before, queued, copy_start, copy_end;
  gpu::Event released_before, asked, arrived, bound, released;
  Duration copier_blocked = Duration::zero();    // host: no device slot to copy into
  Duration consumer_starved = Duration::zero();  // host: no batch to bind
  // Which marks are recorded so far. The consumer's are missing if its step uses no stream.
  bool copied = false;           // queued, copy_start, copy_end
  bool released_first = false;   // released_before
  bool asked_second = false;     // asked
  bool bound_second = false;     // arrived, bound
  bool released_second = false;  // released
  bool was_idle = false;         // the stream had nothing left to do when `released` was recorded
  // The pair's two slots, and asked() while it runs. The last holder gives the timing back, and
  // sees what the others wrote.
  std::atomic<int> holders{0};
  std::uint64_t shape = 0;  // the prefetcher's when the timing was taken
};

/// Which part of a pair a step is.
enum class StepPart : std::uint8_t { kNone, kFirst, kSecond };

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
class StatsCollector {
 public:
  /// Allocates all timings.
  StatsCollector(const gpu::Device& device, const StatsOptions& options);

  [[nodiscard]] bool crosses_epochs() const noexcept { return options_.crosses_epochs; }
  /// Returns which part of a pair the next copied batch is. `last`: the batch is the last one of
  /// its epoch, so it cannot be a pair's first. Called by the copier alone.
  [[nodiscard]] StepPart next_part(bool last) noexcept;
  /// Returns a timing for a pair. Null if all are in use: the pair is then not sampled.
  [[nodiscard]] std::shared_ptr<StepTiming> take();
  /// Called by each of a timing's holders. After the last call, the timing is measured as soon as
  /// the device has reached its events.
  void let_go(std::shared_ptr<StepTiming> timing) noexcept;

  /// A pair's first batch was released, and the consumer holds no other batch.
  void first_released(std::shared_ptr<StepTiming> timing) noexcept;
  /// The consumer asks for the next batch, which it will use on `stream`.
  void asked(const gpu::StreamRef& stream);

  /// A reader took `busy` for a batch. For `cpu` of that time it computed. The disk was to fetch
  /// `cold_bytes`.
  void add_read(Duration busy, Duration cpu, std::uint64_t cold_bytes,
                std::uint64_t major_faults) noexcept;
  void add_copy(std::size_t bytes) noexcept;
  /// The rank's batch `index` of `epoch` was released. It has `samples` samples. `is_own_time` is
  /// what SlotRing::is_own_time() returns to the caller.
  void add_release(std::uint64_t epoch, std::uint64_t index, std::size_t samples,
                   bool is_own_time) noexcept;
  /// A batch was delivered before `overtaken` batches that were begun earlier.
  void add_reordered(std::uint64_t overtaken) noexcept;
  /// The host's part of a step whose batch is bound to no stream: how long the consumer waited for
  /// the batch, and used it since. The step began when the step before ended. The first batch of a
  /// pass makes no step, because its beginning is not known.
  struct HostStep {
    Duration starved;
    Duration busy;
  };
  /// The step of a batch that is bound to no stream ends now.
  void add_host_step(PassId pass, const HostStep& step) noexcept;

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
  struct Sums {
    Mean read, read_cpu, cold, faults, bytes, copy, compute, step, copier_blocked, consumer_starved,
        idle;
    Mean host_busy, host_starved, host_step, samples;
    [[nodiscard]] Sums since(const Sums& before) const noexcept;
  };
  [[nodiscard]] Stats stats_of(const Sums& sums) const;
  [[nodiscard]] Sums filled_up(const Sums& sums) const noexcept;

  // Whether steps were timed on the device. If so, steps timed by the host do not count.
  [[nodiscard]] bool is_on_device() const noexcept {
    return sums_.step.count > at_shape_.step.count;
  }
  void begin_anew();
  void collect_finished();
  void measure(const StepTiming& timing);

  static constexpr std::size_t kTimings = 4;
  StatsOptions options_;
  std::uint64_t until_second_;  // batches until the next pair's second; the copier's
  std::uint64_t pairs_ = 0;     // pairs so far; for the copier alone
  Channel<std::shared_ptr<StepTiming>> free_;

  std::mutex mutex_;  // never held across a park
  std::vector<std::shared_ptr<StepTiming>> finishing_;
  std::shared_ptr<StepTiming> between_;  // the pair whose second batch comes next
  std::uint64_t batches_ = 0;
  std::uint64_t reordered_ = 0;
  std::uint64_t most_overtaken_ = 0;
  Sums sums_;
  LatestSteps latest_;       // since the shape was set
  std::uint64_t shape_ = 0;  // counts shapes: a pair taken in an earlier one is dropped
  Sums at_shape_;            // sums_ when the shape was set
  Sums at_reset_;            // sums_ at the last reset()
  Progress progress_;
  TimePoint host_ended_;  // the latest step of host_pass_
  PassId host_pass_ = PassId::kNone;
};

/// A stretch of the measurements. A new window begins when the current shape was set.
class StatsCollector::Window {
  friend class StatsCollector;
  Sums from_;
  std::uint64_t shape_ = ~std::uint64_t{0};  // the shape that it began in; none yet
};

}  // namespace leat::feeder
