// What a LoopMeter has measured, and its timed events.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/loop_meter.h"
#include "leat/feeder/stats/latest.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"

namespace leat::feeder {

/// The events of one sampled step, recorded in this order on one stream.
struct LoopSample {
  explicit LoopSample(const gpu::Device& device)
      : asked(device, gpu::Timing::kOn),
        got(device, gpu::Timing::kOn),
        asked_next(device, gpu::Timing::kOn) {}
  gpu::Event asked, got, asked_next;
};

/// A measurement in seconds, to which values are added.
class LoopTimes {
 public:
  void add(Duration time) noexcept;
  [[nodiscard]] Quantiles quantiles() const { return quantiles_of(latest_.values()); }
  [[nodiscard]] double sum() const noexcept { return sum_; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  Latest<double> latest_;
  double sum_ = 0;
  std::uint64_t count_ = 0;
};

/// The sums, and the samples that nobody records. Thread-safe.
class LoopSamples {
 public:
  /// Returns whether the device's measurement has failed.
  [[nodiscard]] bool has_failed() const noexcept {
    return has_failed_.load(std::memory_order_relaxed);  // who sees it late fails once more
  }
  /// The exception that is being handled ends the device's measurement.
  void fail() noexcept;

  /// Makes new samples, for `device`. Throws GpuError.
  void make(const gpu::Device& device);
  /// Returns a sample to record. Empty if the device has reached none of the earlier ones.
  [[nodiscard]] std::optional<LoopSample> take() noexcept;
  /// Takes back a sample that was dropped.
  void give_back(LoopSample sample) noexcept;
  /// Takes a sample all of whose events are recorded.
  void add(LoopSample sample) noexcept;

  /// The loop waited `wait` for the first batch of an iteration.
  void add_first(Duration wait) noexcept;
  /// A step of `step` has ended, in which the loop waited `wait` for its batch.
  void add_step(Duration wait, Duration step) noexcept;

  [[nodiscard]] LoopFigures figures();

 private:
  // In most loops a device is less far behind. If it is further behind, steps go unsampled.
  static constexpr std::size_t kSamples = 8;

  void fail_locked() noexcept;
  void collect() noexcept;

  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;  // never held across a park; guards what follows
  std::exception_ptr failure_;
  std::vector<LoopSample> free_;
  std::vector<LoopSample> pending_;  // recorded
  LoopTimes first_waits_;
  LoopTimes waits_;
  LoopTimes steps_;
  LoopTimes gaps_;
  LoopTimes sampled_steps_;
};

}  // namespace leat::feeder
