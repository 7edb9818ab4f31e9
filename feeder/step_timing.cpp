#include "leat/feeder/step_timing.h"

#include <algorithm>
#include <utility>

#include "leat/csp/random.h"

namespace leat::feeder {
namespace {

double seconds(Duration length) noexcept { return std::chrono::duration<double>(length).count(); }

}  // namespace

StepTiming::StepTiming(const gpu::Device& device)
    : copy_end_before(device, gpu::Timing::kOn),
      queued(device, gpu::Timing::kOn),
      copy_start(device, gpu::Timing::kOn),
      copy_end(device, gpu::Timing::kOn),
      released_before(device, gpu::Timing::kOn),
      asked(device, gpu::Timing::kOn),
      arrived(device, gpu::Timing::kOn),
      bound(device, gpu::Timing::kOn),
      released(device, gpu::Timing::kOn) {}

StatsCollector::StatsCollector(const gpu::Device& device, const StatsOptions& options)
    : options_(options),
      until_second_(std::max<std::uint64_t>(options.sample_every, 2) - 1),
      free_(kTimings, "free timings") {
  if (options.sample_every == 0) return;
  finishing_.reserve(kTimings);
  for (std::size_t i = 0; i < kTimings; ++i) {
    static_cast<void>(free_.try_send(std::make_shared<StepTiming>(device)));
  }
}

// The distance from second to second is random, 2 to 2n-2 for one in n: at a fixed one, what
// repeats itself (several readers deliver in bursts) would show the same of its sides every time.
StepPart StatsCollector::next_part(bool last) noexcept {
  if (options_.sample_every == 0 || (last && until_second_ == 1)) return StepPart::kNone;
  if (until_second_ > 0) return until_second_-- == 1 ? StepPart::kFirst : StepPart::kNone;
  const std::uint64_t distances = std::max<std::uint64_t>(2 * options_.sample_every, 5) - 3;
  until_second_ = 1 + mix(++pairs_ * kRandomStep) % distances;
  return StepPart::kSecond;
}

std::shared_ptr<StepTiming> StatsCollector::take() {
  std::optional<std::shared_ptr<StepTiming>> timing;
  if (free_.try_recv(timing) != ChannelStatus::ok) {
    const std::scoped_lock lock(mutex_);
    collect_finished();
    if (free_.try_recv(timing) != ChannelStatus::ok) return nullptr;
  }
  StepTiming& fresh = **timing;
  fresh.copier_blocked = fresh.consumer_starved = Duration::zero();
  fresh.copied = fresh.released_first = fresh.asked_second = false;
  fresh.bound_second = fresh.released_second = false;
  fresh.holders.store(2, std::memory_order_relaxed);
  return *std::move(timing);
}

void StatsCollector::let_go(std::shared_ptr<StepTiming> timing) noexcept {
  if (timing->holders.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::scoped_lock lock(mutex_);
  if (between_ == timing) between_.reset();  // the loop was left
  finishing_.push_back(std::move(timing));   // within the reserved kTimings
}

// Event times can be read once the last event is reached; nobody waits for that.
void StatsCollector::collect_finished() {
  std::erase_if(finishing_, [&](std::shared_ptr<StepTiming>& timing) {
    try {
      // Never recorded counts as done.
      if (!timing->released.is_done() || !timing->copy_end.is_done()) return false;
      measure(*timing);
    } catch (const gpu::GpuError&) {
      // The device has failed: whoever uses it will hear of it. This sample is lost.
    }
    static_cast<void>(free_.try_send(std::move(timing)));
    return true;
  });
}

void StatsCollector::measure(const StepTiming& t) {
  if (t.copied) {
    copy_.add(seconds(elapsed(t.copy_start, t.copy_end)));
    const double idle = std::max(seconds(elapsed(t.copy_end_before, t.queued)), 0.0);
    const double without_slot = std::clamp(seconds(t.copier_blocked), 0.0, idle);
    copier_blocked_.add(without_slot + seconds(elapsed(t.queued, t.copy_start)));
  }
  if (t.released_first && t.bound_second && t.released_second) {
    const double step = seconds(elapsed(t.released_before, t.released));
    const double gap = std::max(seconds(elapsed(t.released_before, t.arrived)), 0.0);
    const double unannounced =
        t.asked_second ? seconds(elapsed(t.asked, t.arrived)) : seconds(t.consumer_starved);
    consumer_starved_.add(std::clamp(unannounced, 0.0, gap) + seconds(elapsed(t.arrived, t.bound)));
    compute_.add(std::min(seconds(elapsed(t.bound, t.released)), step));
    step_.add(step);
  }
}

void StatsCollector::first_released(std::shared_ptr<StepTiming> timing) noexcept {
  const std::scoped_lock lock(mutex_);
  between_ = std::move(timing);
}

void StatsCollector::asked(const gpu::StreamRef& stream) {
  std::shared_ptr<StepTiming> timing;
  {
    const std::scoped_lock lock(mutex_);
    timing = std::move(between_);
  }
  if (timing == nullptr) return;
  try {
    timing->asked.record(stream);
    timing->asked_second = true;
  } catch (const gpu::GpuError&) {
    // The device has failed: the consumer hears of it when it asks.
  }
}

void StatsCollector::add_read(Duration busy, Duration cpu) noexcept {
  const std::scoped_lock lock(mutex_);
  read_.add(seconds(busy));
  read_cpu_.add(seconds(cpu));
}

void StatsCollector::add_copy(std::size_t bytes) noexcept {
  const std::scoped_lock lock(mutex_);
  bytes_.add(static_cast<double>(bytes));
}

void StatsCollector::add_release() noexcept {
  const std::scoped_lock lock(mutex_);
  ++batches_;
}

void StatsCollector::add_reordered(std::uint64_t overtaken) noexcept {
  const std::scoped_lock lock(mutex_);
  ++reordered_;
  most_overtaken_ = std::max(most_overtaken_, overtaken);
}

void StatsCollector::add_host_step(bool begins_epoch, Duration starved, Duration busy) noexcept {
  const TimePoint released = now();
  const std::scoped_lock lock(mutex_);
  if (!begins_epoch) {
    // With several leases at a time a batch is worked on from the release of the one before.
    const double step = seconds(released - host_released_);
    const double worked = std::min(seconds(busy), step);
    host_busy_.add(worked);
    host_starved_.add(std::min(seconds(starved), step - worked));
    host_step_.add(step);
  }
  host_released_ = released;
}

Stats StatsCollector::snapshot() {
  const std::scoped_lock lock(mutex_);
  collect_finished();
  Stats stats;
  stats.batches = batches_;
  stats.reordered = reordered_;
  stats.most_overtaken = most_overtaken_;
  stats.workers = options_.workers;
  stats.devices = options_.devices;
  stats.prefetch_depth = options_.prefetch_depth;
  stats.device_slots = options_.device_slots;
  stats.pinned_slots = options_.pinned_slots;
  stats.batch_bytes = bytes_.value();
  stats.t_read = read_.value();
  stats.t_read_cpu = read_cpu_.value();
  stats.cpus = options_.cpus;
  const bool on_device = step_.count > 0;
  stats.sampled_steps = on_device ? step_.count : host_busy_.count;
  stats.t_x = copy_.value();
  stats.t_c = on_device ? compute_.value() : host_busy_.value();
  stats.t_step = on_device ? step_.value() : host_step_.value();
  if (stats.t_step <= 0) return stats;

  // The first two are measured; what remains of the step is the third (feeder/stats.h says what
  // that means for each stage).
  const auto share = [&](double part) { return std::clamp(part / stats.t_step, 0.0, 1.0); };
  const auto shares = [&](double busy, double other, double StageShares::*which,
                          double StageShares::*rest) {
    StageShares of;
    of.busy = share(busy);
    of.*which = std::min(share(other), 1 - of.busy);
    of.*rest = 1 - of.busy - of.*which;
    return of;
  };
  stats.consumer = shares(stats.t_c, on_device ? consumer_starved_.value() : host_starved_.value(),
                          &StageShares::starved, &StageShares::blocked);
  stats.copier =
      shares(stats.t_x, copier_blocked_.value(), &StageShares::blocked, &StageShares::starved);
  // A reader that does not read waits for a free slot: indices never run out within an epoch.
  stats.reader = shares(
      stats.t_read * static_cast<double>(options_.devices) / static_cast<double>(options_.workers),
      0, &StageShares::starved, &StageShares::blocked);
  return stats;
}

}  // namespace leat::feeder
