#include "leat/feeder/stages/reading.h"

#include <chrono>
#include <thread>

#include "leat/feeder/stats/figures.h"

namespace leat::feeder {

std::string Reading::text(std::optional<TimePoint> at, const Dataset& dataset,
                          std::uint64_t seed) const {
  constexpr int kTries = 1000;  // only a writer that was preempted between two stores takes so long
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t version = version_.load(std::memory_order_acquire);
    const std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
    const std::uint64_t batch = batch_.load(std::memory_order_acquire);
    const TimePoint since = since_.load(std::memory_order_acquire);
    const std::uint64_t sample = sample_.load(std::memory_order_acquire);
    if (version % 2 != 0 || version_.load(std::memory_order_relaxed) != version) {
      std::this_thread::yield();
      continue;
    }
    if (epoch == kNone) return {};
    std::string text = "reads " + name_of({.epoch = epoch, .index = batch});
    if (at.has_value()) {
      text += " for " + time_text(std::chrono::duration<double>(*at - since).count());
    }
    if (sample == kNone) return text;
    const std::string origin = dataset.origin(sample, seed, epoch);
    return text + ", now sample " + std::to_string(sample) +
           (origin.empty() ? "" : " (" + origin + ")");
  }
  return {};
}

}  // namespace leat::feeder
