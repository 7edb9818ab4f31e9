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
// from which, for step k: Tx = copy_start..copy_end, Tstep = released_before..released, Tc =
// bound..released, or from released_before where that came later (several leases at a time). The
// copier was blocked from `queued` to `copy_start` (no slot was released) and while its fiber had
// no slot to enqueue a copy for; the consumer was starved from `asked` to `bound`. Where the stream
// is not known when the batch is asked for (next() without an epoch's stream), the host thread's
// wait stands for asked..arrived. Both are of one epoch: what happens between two epochs belongs to
// no step.
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

/// The marks of one pair, and what its holders have noted.
struct StepTiming {
  explicit StepTiming(const gpu::Device& device);

  gpu::Event copy_end_before, queued, copy_start, copy_end;
  gpu::Event released_before, asked, arrived, bound, released;
  Duration copier_blocked = Duration::zero();    // host: no device slot to copy into
  Duration consumer_starved = Duration::zero();  // host: no batch to bind
  // What has been recorded so far; a step that is not used on a stream leaves the consumer's out.
  bool copied = false;           // queued, copy_start, copy_end
  bool released_first = false;   // released_before
  bool asked_second = false;     // asked
  bool bound_second = false;     // arrived, bound
  bool released_second = false;  // released
  // The two slots that hold it, and asked() meanwhile; whoever lets go last gives it back, and sees
  // what the others wrote.
  std::atomic<int> holders{0};
  std::uint64_t shape = 0;  // of the prefetcher when it was taken
};

/// Which part of a pair a step is.
enum class StepPart : std::uint8_t { kNone, kFirst, kSecond };

/// What the measurements are of.
struct StatsOptions {
  std::size_t workers = 1;
  std::size_t devices = 1;  // that share the workers
  std::size_t prefetch_depth = 2;
  std::size_t device_slots = 2;
  std::size_t pinned_slots = 2;
  std::size_t cpus = 0;           // that readers may compute on; 0: not known
  std::size_t sample_every = 16;  // one step in so many is measured; 0: none
};

/// Collects the measurements of one device. Thread-safe.
class StatsCollector {
 public:
  /// Allocates its timings here, and none later.
  StatsCollector(const gpu::Device& device, const StatsOptions& options);

  /// The part that the next copied batch plays; `last` of its epoch it is no pair's first. Called
  /// by the copier alone.
  [[nodiscard]] StepPart next_part(bool last) noexcept;
  /// A timing to use for a pair, or null if all are in use: that pair is not sampled.
  [[nodiscard]] std::shared_ptr<StepTiming> take();
  /// One of its two holders lets go. When both have, what was recorded is measured once it is
  /// reached.
  void let_go(std::shared_ptr<StepTiming> timing) noexcept;

  /// A pair's first batch was released, and the consumer holds no other.
  void first_released(std::shared_ptr<StepTiming> timing) noexcept;
  /// The consumer asks for the next batch, which it will use on `stream`.
  void asked(const gpu::StreamRef& stream);

  /// A reader took `busy` for a batch, of which it has computed `cpu`.
  void add_read(Duration busy, Duration cpu) noexcept;
  void add_copy(std::size_t bytes) noexcept;
  /// The rank's batch `index` of an epoch was released, of so many samples.
  /// `is_own_time`: as SlotRing's, where it is called.
  void add_release(std::uint64_t epoch, std::uint64_t index, std::size_t samples,
                   bool is_own_time) noexcept;
  /// A batch went before `overtaken` that were begun earlier.
  void add_reordered(std::uint64_t overtaken) noexcept;
  /// A consumer that binds no stream has released a batch just now. If it has looked at it: it
  /// waited and worked for so long, in a step that began when it released the one before. The first
  /// of a pass is no step: nothing says when it began.
  struct HostStep {
    Duration starved;
    Duration busy;
  };
  void add_host_release(PassId pass, const std::optional<HostStep>& step) noexcept;

  /// What was measured before does not count any more.
  void reset();
  /// Of what was measured since the shape was set, or it was reset.
  [[nodiscard]] Stats snapshot();
  class Window;
  /// Of what was measured since `window` began, or the shape was set, or it was reset. Where these
  /// are `enough` sampled steps, it begins anew.
  [[nodiscard]] Stats window(Window& window, std::uint64_t enough);
  /// How far the consumer is. Of all there ever was, resets or not.
  struct Progress {
    std::uint64_t batches = 0;   // released
    std::uint64_t samples = 0;   // of these
    std::uint64_t epoch = 0;     // of the latest of these
    std::uint64_t in_epoch = 0;  // batches up to that one, in it
    // When the first and the latest were released, on the clock of who released them; whether the
    // latest was on that of the stages.
    TimePoint first_at;
    TimePoint latest_at;
    bool is_own_time = true;
    std::uint64_t first_samples = 0;
  };
  [[nodiscard]] Progress progress();
  /// The prefetcher uses so many from now on; what was measured before does not count any more.
  void set_shape(std::size_t workers, std::size_t prefetch_depth, std::size_t device_slots,
                 std::size_t pinned_slots);

 private:
  struct Mean {
    double sum = 0;
    std::uint64_t count = 0;
    void add(double value) noexcept {
      sum += value;
      ++count;
    }
    [[nodiscard]] double value() const noexcept {
      return count == 0 ? 0 : sum / static_cast<double>(count);
    }
    friend Mean operator-(const Mean& a, const Mean& b) noexcept {
      return {.sum = a.sum - b.sum, .count = a.count - b.count};
    }
  };
  struct Sums {
    Mean read, read_cpu, bytes, copy, compute, step, copier_blocked, consumer_starved;
    Mean host_busy, host_starved, host_step;
    [[nodiscard]] Sums since(const Sums& before) const noexcept;
  };
  [[nodiscard]] Stats stats_of(const Sums& sums) const;
  [[nodiscard]] Sums filled_up(const Sums& sums) const noexcept;

  // Whether steps were timed on the device: then these count, and none that the host has timed.
  [[nodiscard]] bool is_on_device() const noexcept {
    return sums_.step.count > at_shape_.step.count;
  }
  void begin_anew();
  void collect_finished();
  void measure(const StepTiming& timing);

  static constexpr std::size_t kTimings = 4;
  StatsOptions options_;
  std::uint64_t until_second_;  // batches to copy before the next pair's second; the copier's
  std::uint64_t pairs_ = 0;     // seconds so far; the copier's
  Channel<std::shared_ptr<StepTiming>> free_;

  std::mutex mutex_;  // never held across a park
  std::vector<std::shared_ptr<StepTiming>> finishing_;
  std::shared_ptr<StepTiming> between_;  // the pair whose second batch is to be asked for
  std::uint64_t batches_ = 0;
  std::uint64_t reordered_ = 0;
  std::uint64_t most_overtaken_ = 0;
  Sums sums_;
  LatestSteps latest_;       // of this shape
  std::uint64_t shape_ = 0;  // counts those set: a pair of two shapes measures neither
  Sums at_shape_;            // when it was set
  Sums at_reset_;            // of what came before, nothing counts
  Progress progress_;
  TimePoint host_released_;  // the latest, of host_pass_
  PassId host_pass_ = PassId::kNone;
};

/// A stretch of the measurements; one that is made begins with the shape of that time.
class StatsCollector::Window {
  friend class StatsCollector;
  Sums from_;
  std::uint64_t shape_ = ~std::uint64_t{0};  // that it began in; none yet
};

}  // namespace leat::feeder
