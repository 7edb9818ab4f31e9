#include "leat/feeder/stats/step_timing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "leat/csp/base/random.h"
#include "leat/csp/error.h"

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

// A pair is chosen by its second step. To sample one step in n, the distance from one second step
// to the next is random, 2 to 2n-2. A fixed distance would always sample the same phase of a loop
// that repeats itself, for instance where several readers deliver in bursts. For the same reason, a
// pair that the end of an epoch would cut is dropped. Postponed, it would be the next epoch's first
// two steps, which are not typical.
StepPart StatsCollector::next_part(bool last) noexcept {
  if (options_.sample_every == 0) return StepPart::kNone;
  last = last && !options_.crosses_epochs;
  const bool is_second = until_second_ == 0;
  if (!is_second && --until_second_ > 0) return StepPart::kNone;
  if (!is_second && !last) return StepPart::kFirst;
  const std::uint64_t distances = std::max<std::uint64_t>(2 * options_.sample_every, 5) - 3;
  until_second_ = 1 + mix(++pairs_ * kRandomStep) % distances;
  return is_second ? StepPart::kSecond : StepPart::kNone;
}

std::shared_ptr<StepTiming> StatsCollector::take() {
  std::optional<std::shared_ptr<StepTiming>> timing;
  const std::scoped_lock lock(mutex_);
  if (free_.try_recv(timing) != ChannelStatus::ok) {
    collect_finished();
    if (free_.try_recv(timing) != ChannelStatus::ok) return nullptr;
  }
  StepTiming& fresh = **timing;
  fresh.shape = shape_;
  fresh.copier_blocked = fresh.consumer_starved = Duration::zero();
  fresh.copied = fresh.released_first = fresh.asked_second = false;
  fresh.bound_second = fresh.released_second = fresh.was_idle = false;
  fresh.holders.store(2, std::memory_order_relaxed);
  return *std::move(timing);
}

void StatsCollector::let_go(std::shared_ptr<StepTiming> timing) noexcept {
  if (timing->holders.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::scoped_lock lock(mutex_);
  if (between_ == timing) between_.reset();  // the consumer left the loop
  finishing_.push_back(std::move(timing));   // memory for kTimings was reserved
}

// Measures the timings whose last event the device has reached, without waiting for the others.
void StatsCollector::collect_finished() {
  std::erase_if(finishing_, [&](std::shared_ptr<StepTiming>& timing) {
    try {
      // An event that was never recorded counts as done.
      if (!timing->released.is_done() || !timing->copy_end.is_done()) return false;
      if (timing->shape == shape_) measure(*timing);
    } catch (const Error&) {
      // The device has failed, which the next call on it reports. This sample is lost.
    }
    static_cast<void>(free_.try_send(std::move(timing)));
    return true;
  });
}

void StatsCollector::measure(const StepTiming& t) {
  std::optional<double> copy;
  if (t.copied) {
    copy = seconds(elapsed(t.copy_start, t.copy_end));
    sums_.copy.add(*copy);
    const double idle = std::max(seconds(elapsed(t.copy_end_before, t.queued)), 0.0);
    const double without_slot = std::clamp(seconds(t.copier_blocked), 0.0, idle);
    sums_.copier_blocked.add(without_slot + seconds(elapsed(t.queued, t.copy_start)));
  }
  if (t.released_first && t.bound_second && t.released_second) {
    const double step = seconds(elapsed(t.released_before, t.released));
    if (step <= 0) return;  // the steps ended in the opposite order, on two streams
    const double gap = std::max(seconds(elapsed(t.released_before, t.arrived)), 0.0);
    const double unannounced =
        t.asked_second ? seconds(elapsed(t.asked, t.arrived)) : seconds(t.consumer_starved);
    sums_.consumer_starved.add(std::clamp(unannounced, 0.0, gap) +
                               seconds(elapsed(t.arrived, t.bound)));
    const double compute = std::min(seconds(elapsed(t.bound, t.released)), step);
    if (!is_on_device()) latest_.clear();  // the host timed these steps
    sums_.compute.add(compute);
    sums_.step.add(step);
    sums_.idle.add(t.was_idle ? compute : 0);
    latest_.add(step, compute, copy);
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
  // Becomes a third holder, because the copier may let go of a pair that leads to another epoch,
  // and take the same timing again. acquire: pairs with the release in let_go().
  int holders = timing->holders.load(std::memory_order_relaxed);
  do {
    if (holders == 0) return;
  } while (!timing->holders.compare_exchange_weak(holders, holders + 1, std::memory_order_acquire,
                                                  std::memory_order_relaxed));
  try {
    timing->asked.record(stream);
    timing->asked_second = true;
  } catch (const Error&) {
    // The device has failed, which the consumer's next call reports.
  }
  let_go(std::move(timing));
}

void StatsCollector::add_read(Duration busy, Duration cpu, std::uint64_t cold_bytes,
                              std::uint64_t major_faults) noexcept {
  const std::scoped_lock lock(mutex_);
  sums_.read.add(seconds(busy));
  sums_.read_cpu.add(seconds(cpu));
  sums_.cold.add(static_cast<double>(cold_bytes));
  sums_.faults.add(static_cast<double>(major_faults));
}

void StatsCollector::add_copy(std::size_t bytes) noexcept {
  const std::scoped_lock lock(mutex_);
  sums_.bytes.add(static_cast<double>(bytes));
}

void StatsCollector::add_release(std::uint64_t epoch, std::uint64_t index, std::size_t samples,
                                 bool is_own_time) noexcept {
  const std::scoped_lock lock(mutex_);
  const TimePoint at = now();  // under the lock: times are in the order of the counts
  progress_.is_own_time = is_own_time;
  ++batches_;
  sums_.samples.add(static_cast<double>(samples));
  if (progress_.batches++ == 0) progress_.first_at = at;
  progress_.latest_at = at;
  progress_.samples += samples;
  progress_.epoch = epoch;
  progress_.in_epoch = index + 1;
}

StatsCollector::Progress StatsCollector::progress() {
  const std::scoped_lock lock(mutex_);
  return progress_;
}

void StatsCollector::add_reordered(std::uint64_t overtaken) noexcept {
  const std::scoped_lock lock(mutex_);
  ++reordered_;
  most_overtaken_ = std::max(most_overtaken_, overtaken);
}

void StatsCollector::add_host_step(PassId pass, const HostStep& step) noexcept {
  const TimePoint ended = now();
  const std::scoped_lock lock(mutex_);
  const bool has_begun = host_pass_ != PassId::kNone;
  if (pass == host_pass_ || (has_begun && options_.crosses_epochs)) {
    // A receiver's batches are handed out before the batch before is released.
    const double whole = seconds(ended - host_ended_);
    const double worked = std::min(seconds(step.busy), whole);
    sums_.host_busy.add(worked);
    sums_.host_starved.add(std::min(seconds(step.starved), whole - worked));
    sums_.host_step.add(whole);
    if (!is_on_device()) latest_.add(whole, worked, std::nullopt);
  }
  host_pass_ = pass;
  host_ended_ = ended;
}

// Fills in the means for which a stretch has no measurement: from the time since the shape was set,
// or else since the last reset. Copies are timed for one step in many, and towards the end of an
// epoch steps continue after the last read. Reads and copies take as long with another shape, but
// they wait for another time: so copier_blocked is only taken from the time since the shape was
// set.
StatsCollector::Sums StatsCollector::filled_up(const Sums& sums) const noexcept {
  Sums filled = sums;
  for (const Sums& wider : {sums_.since(at_shape_), sums_.since(at_reset_)}) {
    if (filled.read.count == 0) {
      filled.read = wider.read;
      filled.read_cpu = wider.read_cpu;
      filled.cold = wider.cold;
      filled.faults = wider.faults;
    }
    if (filled.bytes.count == 0) filled.bytes = wider.bytes;
    if (filled.copy.count == 0) filled.copy = wider.copy;
  }
  if (filled.copier_blocked.count == 0) {
    filled.copier_blocked = sums_.copier_blocked - at_shape_.copier_blocked;
  }
  return filled;
}

double StatsCollector::Mean::error() const noexcept {
  if (count < 2) return 0;
  const auto n = static_cast<double>(count);
  const double variance = (squares - sum * sum / n) / (n - 1);
  return std::sqrt(std::max(variance, 0.0) / n);
}

StatsCollector::Sums StatsCollector::Sums::since(const Sums& before) const noexcept {
  return {.read = read - before.read,
          .read_cpu = read_cpu - before.read_cpu,
          .cold = cold - before.cold,
          .faults = faults - before.faults,
          .bytes = bytes - before.bytes,
          .copy = copy - before.copy,
          .compute = compute - before.compute,
          .step = step - before.step,
          .copier_blocked = copier_blocked - before.copier_blocked,
          .consumer_starved = consumer_starved - before.consumer_starved,
          .idle = idle - before.idle,
          .host_busy = host_busy - before.host_busy,
          .host_starved = host_starved - before.host_starved,
          .host_step = host_step - before.host_step,
          .samples = samples - before.samples};
}

Stats StatsCollector::snapshot() {
  const std::scoped_lock lock(mutex_);
  collect_finished();
  Stats stats = stats_of(sums_.since(at_shape_));
  latest_.add_to(stats);
  return stats;
}

Stats StatsCollector::window(Window& window, std::uint64_t enough) {
  const std::scoped_lock lock(mutex_);
  collect_finished();
  if (window.shape_ != shape_) window.from_ = at_shape_;
  window.shape_ = shape_;
  Stats stats = stats_of(sums_.since(window.from_));
  if (stats.sampled_steps >= enough) window.from_ = sums_;
  return stats;
}

void StatsCollector::set_shape(std::size_t workers, std::size_t prefetch_depth,
                               std::size_t device_slots, std::size_t pinned_slots) {
  const std::scoped_lock lock(mutex_);
  collect_finished();
  options_.workers = workers;
  options_.prefetch_depth = prefetch_depth;
  options_.device_slots = device_slots;
  options_.pinned_slots = pinned_slots;
  begin_anew();
}

void StatsCollector::begin_anew() {
  at_shape_ = sums_;
  host_pass_ = PassId::kNone;  // the current step belongs to both shapes
  latest_.clear();
  ++shape_;
}

void StatsCollector::reset() {
  const std::scoped_lock lock(mutex_);
  collect_finished();
  begin_anew();
  at_reset_ = sums_;
  batches_ = reordered_ = most_overtaken_ = 0;
}

Stats StatsCollector::stats_of(const Sums& measured) const {
  const Sums sums = filled_up(measured);
  Stats stats;
  stats.batches = batches_;
  stats.reordered = reordered_;
  stats.most_overtaken = most_overtaken_;
  stats.workers = options_.workers;
  stats.devices = options_.devices;
  stats.prefetch_depth = options_.prefetch_depth;
  stats.device_slots = options_.device_slots;
  stats.pinned_slots = options_.pinned_slots;
  stats.batch_bytes = sums.bytes.value();
  stats.t_read = sums.read.value();
  stats.t_read_cpu = sums.read_cpu.value();
  stats.cpus = options_.cpus;
  stats.cold_bytes = sums.cold.value();
  stats.hot_bytes = std::max(stats.batch_bytes - stats.cold_bytes, 0.0);
  stats.major_faults = sums.faults.value();
  const bool on_device = sums.step.count > 0;
  stats.sampled_steps = on_device ? sums.step.count : sums.host_busy.count;
  stats.timed_copies = sums.copy.count;
  stats.t_x = sums.copy.value();
  stats.t_c = on_device ? sums.compute.value() : sums.host_busy.value();
  stats.t_step = on_device ? sums.step.value() : sums.host_step.value();
  if (stats.t_step <= 0) return stats;
  stats.idle_ends = sums.idle.value() / stats.t_step;
  stats.t_step_error = sums.step.error();  // 0 if the host has timed the steps: it times all
  stats.samples_per_second = sums.samples.value() / stats.t_step;

  // Two shares are measured, and the third is the rest of the step (feeder/stats.h says which one,
  // for each stage).
  const auto share = [&](double part) { return std::clamp(part / stats.t_step, 0.0, 1.0); };
  const auto shares = [&](double busy, double other, double StageShares::*which,
                          double StageShares::*rest) {
    StageShares of;
    of.busy = share(busy);
    of.*which = std::min(share(other), 1 - of.busy);
    of.*rest = 1 - of.busy - of.*which;
    return of;
  };
  stats.consumer =
      shares(stats.t_c, on_device ? sums.consumer_starved.value() : sums.host_starved.value(),
             &StageShares::starved, &StageShares::blocked);
  if (sums.copier_blocked.count > 0) {
    stats.copier = shares(stats.t_x, sums.copier_blocked.value(), &StageShares::blocked,
                          &StageShares::starved);
  }
  // A reader that does not read waits for a free slot: within an epoch there is always more to
  // read.
  if (sums.read.count > 0) {
    stats.reader = shares(stats.t_read * static_cast<double>(options_.devices) /
                              static_cast<double>(options_.workers),
                          0, &StageShares::starved, &StageShares::blocked);
  }
  return stats;
}

}  // namespace leat::feeder
