#include "leat/feeder/live/rows.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

namespace leat::feeder {
namespace {

// Rates are of so long and of so many steps at least: of less they would flicker.
constexpr std::chrono::seconds kLeastTime{1};
constexpr std::uint64_t kLeastSteps = 4;

using Seconds = std::chrono::duration<double>;

}  // namespace

double LiveRate::update(const StatsCollector::Progress& latest, TimePoint now) {
  if (latest.batches == 0) return 0;
  // Steps may have ended before anybody looked.
  if (releases_.empty()) releases_.push_back({.at = latest.first_at, .batches = 1});
  if (latest.latest_at < releases_.back().at) releases_.clear();  // on another clock
  if (releases_.empty() || latest.batches != releases_.back().batches) {
    releases_.push_back({.at = latest.latest_at, .batches = latest.batches});
  }
  while (releases_.size() > 2 && latest.latest_at - releases_[1].at >= kLeastTime &&
         latest.batches - releases_[1].batches >= kLeastSteps) {
    releases_.pop_front();
  }
  const double known = Seconds(latest.latest_at - releases_.front().at).count();
  if (known <= 0) return 0;
  const auto steps = static_cast<double>(latest.batches - releases_.front().batches);
  return std::min(steps / known, (steps + 1) / (known + Seconds(now - latest.latest_at).count()));
}

std::span<const LiveRow> LiveRows::update() {
  ++looks_;
  for (std::size_t i = 0; i < rows_.size(); ++i) update(i);
  if (!source_.is_shared || live_.batches > 0) return rows_;
  // Each batch of the epoch goes to one of the devices: together they end it sooner.
  std::pair<std::uint64_t, std::uint64_t> furthest;  // epoch, batches of it
  double together = 0;
  for (const LiveRow& row : rows_) {
    furthest = std::max(furthest, {row.epoch, row.done});
    together += row.steps_per_second;
  }
  for (LiveRow& row : rows_) {
    std::tie(row.epoch, row.done) = furthest;
    row.done_per_second = together;
  }
  return rows_;
}

void LiveRows::update(std::size_t i) {
  SlotRing& ring = *source_.rings[i];
  LiveRow& row = rows_[i];
  const StatsCollector::Progress progress = ring.stats.progress();
  row.device = ring.device.name();
  row.epoch = progress.epoch;
  row.total = live_.batches == 0 ? source_.batches_per_epoch : live_.batches;
  row.done = live_.batches == 0 ? progress.in_epoch : progress.batches;
  // A virtual clock may end before the prefetcher, and shows its time to its own run only: the time
  // is then that of the latest release.
  const bool has_clock = progress.is_own_time && !ring.is_virtual_time();
  const double rate = rates_[i].update(progress, has_clock ? now() : progress.latest_at);
  row.steps_per_second = row.done_per_second = rate;
  row.samples_per_second = rate * static_cast<double>(progress.samples) /
                           static_cast<double>(std::max<std::uint64_t>(progress.batches, 1));
  // Each second they begin anew. Until a step is sampled then, they stay what they were.
  constexpr std::uint64_t kNever = ~std::uint64_t{0};
  const Stats stats = ring.stats.window(windows_[i], looks_ % kLooksPerSecond == 0 ? 1 : kNever);
  if (stats.sampled_steps > 0 || row.stats.sampled_steps == 0) row.stats = stats;
  row.filled = ring.filled.size();
  // The channel of ready batches also holds ends of epochs, which take no device slot.
  const auto is_ready = [](const auto& slot) { return slot->state.now() == DeviceState::kReady; };
  row.ready = static_cast<std::size_t>(std::ranges::count_if(ring.device_slots(), is_ready));
}

}  // namespace leat::feeder
