#include "leat/feeder/stats/loop_samples.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace leat::feeder {

void LoopTimes::add(Duration time) noexcept {
  const double seconds = std::max(std::chrono::duration<double>(time).count(), 0.0);
  latest_.add(seconds);
  sum_ += seconds;
  ++count_;
}

void LoopSamples::fail() noexcept {
  const std::scoped_lock lock(mutex_);
  fail_locked();
}

void LoopSamples::fail_locked() noexcept {
  if (failure_ == nullptr) failure_ = std::current_exception();
  has_failed_.store(true, std::memory_order_relaxed);
}

void LoopSamples::make(const gpu::Device& device) {
  std::vector<LoopSample> fresh;
  fresh.reserve(kSamples);
  for (std::size_t i = 0; i < kSamples; ++i) fresh.emplace_back(device);
  std::vector<LoopSample> none;
  none.reserve(kSamples);
  const std::scoped_lock lock(mutex_);
  free_.swap(fresh);
  pending_.swap(none);
}

std::optional<LoopSample> LoopSamples::take() noexcept {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) collect();
  if (free_.empty()) return std::nullopt;
  std::optional<LoopSample> sample(std::move(free_.back()));
  free_.pop_back();
  return sample;
}

void LoopSamples::give_back(LoopSample sample) noexcept {
  const std::scoped_lock lock(mutex_);
  free_.push_back(std::move(sample));  // memory was reserved
}

void LoopSamples::add(LoopSample sample) noexcept {
  const std::scoped_lock lock(mutex_);
  pending_.push_back(std::move(sample));  // likewise
}

void LoopSamples::add_first(Duration wait) noexcept {
  const std::scoped_lock lock(mutex_);
  first_waits_.add(wait);
}

void LoopSamples::add_step(Duration wait, Duration step) noexcept {
  const std::scoped_lock lock(mutex_);
  waits_.add(wait);
  steps_.add(step);
}

// Reads the samples that the device has reached, without waiting for the others.
void LoopSamples::collect() noexcept {
  try {
    for (std::size_t i = 0; i < pending_.size();) {
      LoopSample& sample = pending_[i];
      if (!sample.asked_next.is_done()) {
        ++i;
        continue;
      }
      const Duration gap = elapsed(sample.asked, sample.got);
      const Duration step = elapsed(sample.asked, sample.asked_next);
      gaps_.add(gap);
      sampled_steps_.add(step);
      free_.push_back(std::move(sample));
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  } catch (const std::exception&) {
    fail_locked();
    pending_.clear();
  }
}

LoopFigures LoopSamples::figures() {
  const std::scoped_lock lock(mutex_);
  collect();
  LoopFigures figures{.iterations = first_waits_.count(),
                      .first_wait = first_waits_.quantiles(),
                      .steps = steps_.count(),
                      .wait = waits_.quantiles(),
                      .wait_sum = waits_.sum(),
                      .step = steps_.quantiles(),
                      .step_sum = steps_.sum(),
                      .sampled = gaps_.count(),
                      .gap = gaps_.quantiles(),
                      .gap_sum = gaps_.sum(),
                      .sampled_step = sampled_steps_.quantiles(),
                      .sampled_step_sum = sampled_steps_.sum(),
                      .device_error = {}};
  if (failure_ == nullptr) return figures;
  try {
    std::rethrow_exception(failure_);
  } catch (const std::exception& failure) {
    figures.device_error = failure.what();
  }
  return figures;
}

}  // namespace leat::feeder
