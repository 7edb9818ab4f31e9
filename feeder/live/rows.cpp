#include "leat/feeder/live/rows.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace leat::feeder {
namespace {

// Sampled steps count for so long, at least.
constexpr std::chrono::seconds kWindow{1};

}  // namespace

LiveRows::LiveRows(const Live& live, LiveSource source)
    : live_(live),
      source_(std::move(source)),
      from_(source_.rings.size()),
      rows_(source_.rings.size()) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows_[i].device = source_.rings[i]->device.name();
  }
}

void LiveRows::update() {
  for (std::size_t i = 0; i < rows_.size(); ++i) update(i);
  if (source_.is_shared && live_.batches == 0) share_progress();
}

void LiveRows::update(std::size_t i) {
  SlotRing& ring = *source_.rings[i];
  From& from = from_[i];
  LiveRow& row = rows_[i];
  const StatsCollector::Progress progress = ring.stats.progress();
  // A clock that is virtual may end before the prefetcher does, and tells the time to its own run
  // alone: the time is then that of the latest release.
  const TimePoint now =
      progress.is_own_time && !ring.is_virtual_time() ? leat::now() : progress.latest_at;
  if (progress.batches > 0) {
    if (!from.is_own_time.has_value()) {
      from.rate.add(progress.first_at, 1, progress.first_samples);
    } else if (*from.is_own_time != progress.is_own_time) {  // another clock
      from.rate = {};
      from.since.reset();
    }
    from.is_own_time = progress.is_own_time;
    from.rate.add(progress.latest_at, progress.batches, progress.samples);
  }
  const std::optional<LiveRate::Rates> rates = from.rate.rates(now);
  row.steps_per_second = rates ? std::optional(rates->batches) : std::nullopt;
  row.samples_per_second = rates ? std::optional(rates->samples) : std::nullopt;
  row.done_per_second = row.steps_per_second;

  if (!from.since.has_value()) from.since = now;
  const bool is_whole = now - *from.since >= kWindow;
  constexpr std::uint64_t kNever = ~std::uint64_t{0};
  const Stats stats = ring.stats.window(from.window, is_whole ? 1 : kNever);
  if (stats.sampled_steps > 0 || row.stats.sampled_steps == 0) row.stats = stats;
  if (is_whole) from.since = now;

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

// Each batch of the epoch goes to one of the devices: it is over sooner than at one's rate.
void LiveRows::share_progress() {
  std::uint64_t epoch = 0;
  std::uint64_t done = 0;
  std::optional<double> together;
  for (const LiveRow& row : rows_) {
    if (row.epoch > epoch) done = 0;
    epoch = std::max(epoch, row.epoch);
    if (row.epoch == epoch) done = std::max(done, row.done);
    if (row.steps_per_second) together = together.value_or(0) + *row.steps_per_second;
  }
  for (LiveRow& row : rows_) {
    row.epoch = epoch;
    row.done = done;
    row.done_per_second = together;
  }
}

}  // namespace leat::feeder
