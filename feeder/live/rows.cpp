#include "leat/feeder/live/rows.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

namespace leat::feeder {
namespace {

// Figures are of so long at least, and rates of so many steps: of less they would flicker.
constexpr std::chrono::seconds kWindow{1};
constexpr std::uint64_t kLeastSteps = 4;

double in_seconds(Duration length) { return std::chrono::duration<double>(length).count(); }

}  // namespace

void LiveRate::add(TimePoint at, std::uint64_t batches, std::uint64_t samples) {
  if (!releases_.empty()) {
    if (batches == releases_.back().batches) return;
    if (at < releases_.back().at) releases_.clear();
  }
  releases_.push_back({.at = at, .batches = batches, .samples = samples});
  while (releases_.size() > 2 && at - releases_[1].at >= kWindow &&
         batches - releases_[1].batches >= kLeastSteps) {
    releases_.pop_front();
  }
}

LiveRate::Rates LiveRate::rates(TimePoint now) const {
  if (releases_.size() < 2) return {};
  const Release& first = releases_.front();
  const Release& last = releases_.back();
  const double known = in_seconds(last.at - first.at);
  if (known <= 0) return {};
  const auto steps = static_cast<double>(last.batches - first.batches);
  const double current = std::max(in_seconds(now - last.at), 0.0);
  const double batches = std::min(steps / known, (steps + 1) / (known + current));
  return {.batches = batches,
          .samples = batches / steps * static_cast<double>(last.samples - first.samples)};
}

LiveRows::LiveRows(const Live& live, LiveSource source)
    : live_(live),
      source_(std::move(source)),
      starts_(source_.rings.size()),
      rows_(source_.rings.size()) {}

std::span<const LiveRow> LiveRows::update() {
  for (std::size_t i = 0; i < rows_.size(); ++i) update(*source_.rings[i], starts_[i], rows_[i]);
  if (source_.is_shared && live_.batches == 0) share_progress();
  return rows_;
}

void LiveRows::update(SlotRing& ring, Start& start, LiveRow& row) {
  const StatsCollector::Progress progress = ring.stats.progress();
  // A virtual clock may end before the prefetcher, and shows its time to its own run only: the time
  // is then that of the latest release.
  const TimePoint now =
      progress.is_own_time && !ring.is_virtual_time() ? leat::now() : progress.latest_at;
  if (progress.batches > 0) {
    if (!start.is_own_time.has_value()) {
      start.rate.add(progress.first_at, 1, progress.first_samples);
    } else if (*start.is_own_time != progress.is_own_time) {  // another clock
      start.rate = {};
      start.since.reset();
    }
    start.is_own_time = progress.is_own_time;
    start.rate.add(progress.latest_at, progress.batches, progress.samples);
  }
  const auto [steps, samples] = start.rate.rates(now);
  row.steps_per_second = row.done_per_second = steps;
  row.samples_per_second = samples;

  if (!start.since.has_value()) start.since = now;
  const bool is_whole = now - *start.since >= kWindow;
  constexpr std::uint64_t kNever = ~std::uint64_t{0};
  const Stats stats = ring.stats.window(start.window, is_whole ? 1 : kNever);
  if (stats.sampled_steps > 0 || row.stats.sampled_steps == 0) row.stats = stats;
  if (is_whole) start.since = now;

  row.device = ring.device.name();
  row.epoch = progress.epoch;
  row.total = live_.batches == 0 ? source_.batches_per_epoch : live_.batches;
  row.done = live_.batches == 0 ? progress.in_epoch : progress.batches;
  // The channel also holds ends of epochs, which take no device slot.
  row.ready =
      static_cast<std::size_t>(std::ranges::count_if(ring.device_slots(), [](const auto& slot) {
        return slot->state.now() == DeviceState::kReady;
      }));
  row.filled = ring.filled.size();
}

// Each batch of the epoch goes to one of the devices: together they end it sooner.
void LiveRows::share_progress() {
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
}

}  // namespace leat::feeder
