#include "leat/feeder/stats/step_timing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "leat/csp/base/random.h"
#include "leat/csp/error.h"

namespace leat::feeder {
namespace {

double seconds(Duration length) noexcept { return std::chrono::duration<double>(length).count(); }

}  // namespace

StatsCollector::StatsCollector(const gpu::Device& device, const StatsOptions& options)
    : options_(options), sampling_(options.sample_every, 2) {
  if (options.sample_every == 0) return;
  free_.reserve(kTimings);
  finishing_.reserve(kTimings);
  for (std::size_t i = 0; i < kTimings; ++i) free_.push_back(&timings_.emplace_back(device));
}

// A pair is chosen by its second step. One that the end of an epoch would cut is dropped:
// postponed, it would be the next epoch's first two steps, which are not typical.
StepPart StatsCollector::next_part(bool is_last) noexcept {
  const std::uint64_t left = sampling_.count();
  if (left == 0) return StepPart::kSecond;
  if (left > 1) return StepPart::kNone;
  if (!is_last || options_.crosses_epochs) return StepPart::kFirst;
  sampling_.skip();
  return StepPart::kNone;
}

void StatsCollector::copy_begins(BatchRecord& batch) noexcept {
  batch.part = next_part(batch.is_last);
  batch.timing = nullptr;
  batch.marks[0] = nullptr;
  if (batch.part == StepPart::kFirst) {
    pair_ = take();
    pair_generation_ = batch.generation;
    pair_epoch_ = batch.batch.epoch;
  }
  if (batch.part == StepPart::kNone || pair_ == nullptr) {
    batch.part = StepPart::kNone;
    return;
  }
  StepTiming& timing = *pair_;
  if (batch.part == StepPart::kSecond) pair_ = nullptr;
  if (batch.part == StepPart::kSecond && !options_.crosses_epochs &&
      (pair_generation_ != batch.generation || pair_epoch_ != batch.batch.epoch)) {
    // The pair's first batch ended this rank's part of its epoch: no step leads from it to here.
    const std::scoped_lock lock(mutex_);
    let_go(timing);
    batch.part = StepPart::kNone;
    return;
  }
  batch.timing = &timing;
  batch.marks[0] = batch.part == StepPart::kFirst ? &timing.first : &timing.second;
}

// Null if all timings are in use: the pair is then not sampled.
StepTiming* StatsCollector::take() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) collect_finished();
  if (free_.empty()) return nullptr;
  StepTiming& fresh = *free_.back();
  free_.pop_back();
  fresh.first.clear();
  fresh.second.clear();
  fresh.shape = shape_;
  fresh.holders = 2;
  return &fresh;
}

// Called by each of a timing's holders. After the last call, the timing is measured as soon as the
// device has reached its events. Needs the lock.
void StatsCollector::let_go(StepTiming& timing) noexcept {
  if (--timing.holders > 0) return;
  if (between_ == &timing) between_ = nullptr;  // the consumer left the loop
  finishing_.push_back(&timing);                // memory for kTimings was reserved
}

// Measures the timings whose last event the device has reached, without waiting for the others.
void StatsCollector::collect_finished() {
  std::erase_if(finishing_, [&](StepTiming* timing) {
    try {
      // An event that was never recorded counts as done.
      if (!timing->second[Mark::kUseEnds].is_done() || !timing->second[Mark::kCopyEnds].is_done()) {
        return false;
      }
      if (timing->shape == shape_) measure(*timing);
    } catch (const Error&) {
      // The device has failed, which the next call on it reports. This sample is lost.
    }
    free_.push_back(timing);  // likewise
    return true;
  });
}

void StatsCollector::measure(const StepTiming& timing) {
  const Marks& before = timing.first;
  const Marks& marks = timing.second;
  const auto between = [&](Mark begin, Mark end) {
    return seconds(elapsed(marks[begin], marks[end]));
  };
  std::optional<double> copy;
  if (marks.has(Mark::kCopyEnds)) {
    copy = between(Mark::kCopyBegins, Mark::kCopyEnds);
    sums_[kCopy].add(*copy);
    const double idle =
        std::max(seconds(elapsed(before[Mark::kCopyEnds], marks[Mark::kQueued])), 0.0);
    const double without_slot = std::clamp(seconds(timing.copier_blocked), 0.0, idle);
    sums_[kCopierBlocked].add(without_slot + between(Mark::kQueued, Mark::kCopyBegins));
  }
  if (before.has(Mark::kUseEnds) && marks.has(Mark::kUseBegins) && marks.has(Mark::kUseEnds)) {
    const double step = seconds(elapsed(before[Mark::kUseEnds], marks[Mark::kUseEnds]));
    if (step <= 0) return;  // the steps ended in the opposite order, on two streams
    const double gap =
        std::max(seconds(elapsed(before[Mark::kUseEnds], marks[Mark::kArrived])), 0.0);
    const double unannounced =
        before.has(Mark::kNextAsked)
            ? seconds(elapsed(before[Mark::kNextAsked], marks[Mark::kArrived]))
            : seconds(timing.consumer_starved);
    sums_[kConsumerStarved].add(std::clamp(unannounced, 0.0, gap) +
                                between(Mark::kArrived, Mark::kUseBegins));
    const double compute = std::min(between(Mark::kUseBegins, Mark::kUseEnds), step);
    if (!is_on_device()) latest_.clear();  // the host timed these steps
    sums_[kCompute].add(compute);
    sums_[kStep].add(step);
    sums_[kIdle].add(timing.was_idle ? compute : 0);
    latest_.add(step, compute, copy);
  }
}

void StatsCollector::asked(const gpu::StreamRef& stream) {
  StepTiming* timing = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    timing = std::exchange(between_, nullptr);
    if (timing == nullptr) return;
    // A third holder: the copier may let go of a pair that leads to another epoch.
    ++timing->holders;
  }
  try {
    timing->first.record(Mark::kNextAsked, stream);
  } catch (const Error&) {
    // The device has failed, which the consumer's next call reports.
  }
  const std::scoped_lock lock(mutex_);
  let_go(*timing);
}

void StatsCollector::read(BatchRecord& batch) noexcept {
  const std::scoped_lock lock(mutex_);
  sums_[kRead].add(seconds(batch.read.end - batch.read.begin));
  sums_[kReadCpu].add(seconds(batch.cost.cpu));
  sums_[kCold].add(static_cast<double>(batch.cost.cold_bytes));
  sums_[kFaults].add(static_cast<double>(batch.cost.major_faults));
}

void StatsCollector::copied(BatchRecord& batch) noexcept {
  const std::scoped_lock lock(mutex_);
  sums_[kBytes].add(static_cast<double>(batch.bytes));
}

void StatsCollector::step_ended(BatchRecord& batch) noexcept {
  if (batch.is_used && !batch.awaits_next) return;
  const std::scoped_lock lock(mutex_);
  if (batch.awaits_next) {
    between_ = batch.timing;
    return;
  }
  const bool has_begun = host_pass_ != PassId::kNone;
  if (batch.pass == host_pass_ || (has_begun && options_.crosses_epochs)) {
    // A receiver's batches are handed out before the batch before is released.
    const double whole = seconds(batch.step_end - host_ended_);
    const double worked = std::min(seconds(batch.busy), whole);
    sums_[kHostBusy].add(worked);
    sums_[kHostStarved].add(std::min(seconds(batch.starved), whole - worked));
    sums_[kHostStep].add(whole);
    if (!is_on_device()) latest_.add(whole, worked, std::nullopt);
  }
  host_pass_ = batch.pass;
  host_ended_ = batch.step_end;
}

void StatsCollector::given_back(BatchRecord& batch) noexcept {
  if (!batch.is_done && batch.timing == nullptr) return;
  const std::scoped_lock lock(mutex_);
  if (batch.is_done) {
    const TimePoint at = now();  // under the lock: times are in the order of the counts
    progress_.is_own_time = batch.ended_in_own_time;
    ++batches_;
    sums_[kSamples].add(static_cast<double>(batch.batch.samples));
    if (progress_.batches++ == 0) progress_.first_at = at;
    progress_.latest_at = at;
    progress_.samples += batch.batch.samples;
    progress_.epoch = batch.batch.epoch;
    progress_.in_epoch = batch.batch.index + 1;
  }
  if (batch.timing == nullptr) return;
  if (batch.part == StepPart::kSecond) {
    batch.timing->copier_blocked = batch.wait_for_slot.end - batch.wait_for_slot.begin;
    batch.timing->consumer_starved = batch.starved;
    batch.timing->was_idle = batch.was_idle;
  }
  let_go(*std::exchange(batch.timing, nullptr));
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

// Fills in the means for which a stretch has no measurement: from the time since the shape was set,
// or else since the last reset. Copies are timed for one step in many, and towards the end of an
// epoch steps continue after the last read. Reads and copies take as long with another shape, but
// they wait for another time: so copier_blocked is only taken from the time since the shape was
// set.
StatsCollector::Sums StatsCollector::filled_up(const Sums& sums) const noexcept {
  Sums filled = sums;
  for (const Sums& wider : {since(at_shape_), since(at_reset_)}) {
    for (const Figure figure : {kRead, kReadCpu, kCold, kFaults, kBytes, kCopy}) {
      if (filled[figure].count == 0) filled[figure] = wider[figure];
    }
  }
  if (filled[kCopierBlocked].count == 0) {
    filled[kCopierBlocked] = sums_[kCopierBlocked] - at_shape_[kCopierBlocked];
  }
  return filled;
}

double StatsCollector::Mean::error() const noexcept {
  if (count < 2) return 0;
  const auto n = static_cast<double>(count);
  const double variance = (squares - sum * sum / n) / (n - 1);
  return std::sqrt(std::max(variance, 0.0) / n);
}

StatsCollector::Sums StatsCollector::since(const Sums& before) const noexcept {
  Sums stretch;
  std::ranges::transform(sums_, before, stretch.begin(), std::minus{});
  return stretch;
}

Stats StatsCollector::snapshot() {
  const std::scoped_lock lock(mutex_);
  collect_finished();
  Stats stats = stats_of(since(at_shape_));
  latest_.add_to(stats);
  return stats;
}

Stats StatsCollector::window(Window& window, std::uint64_t enough) {
  const std::scoped_lock lock(mutex_);
  collect_finished();
  if (window.shape_ != shape_) window.from_ = at_shape_;
  window.shape_ = shape_;
  Stats stats = stats_of(since(window.from_));
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
  stats.batch_bytes = sums[kBytes].value();
  stats.t_read = sums[kRead].value();
  stats.t_read_cpu = sums[kReadCpu].value();
  stats.cpus = options_.cpus;
  stats.cold_bytes = sums[kCold].value();
  stats.hot_bytes = std::max(stats.batch_bytes - stats.cold_bytes, 0.0);
  stats.major_faults = sums[kFaults].value();
  const bool on_device = sums[kStep].count > 0;
  stats.sampled_steps = on_device ? sums[kStep].count : sums[kHostBusy].count;
  stats.timed_copies = sums[kCopy].count;
  stats.t_x = sums[kCopy].value();
  stats.t_c = on_device ? sums[kCompute].value() : sums[kHostBusy].value();
  stats.t_step = on_device ? sums[kStep].value() : sums[kHostStep].value();
  if (stats.t_step <= 0) return stats;
  stats.idle_ends = sums[kIdle].value() / stats.t_step;
  stats.t_step_error = sums[kStep].error();  // 0 if the host has timed the steps: it times all
  stats.samples_per_second = sums[kSamples].value() / stats.t_step;

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
      shares(stats.t_c, on_device ? sums[kConsumerStarved].value() : sums[kHostStarved].value(),
             &StageShares::starved, &StageShares::blocked);
  if (sums[kCopierBlocked].count > 0) {
    stats.copier = shares(stats.t_x, sums[kCopierBlocked].value(), &StageShares::blocked,
                          &StageShares::starved);
  }
  // A reader that does not read waits for a free slot: within an epoch there is always more to
  // read.
  if (sums[kRead].count > 0) {
    stats.reader = shares(stats.t_read * static_cast<double>(options_.devices) /
                              static_cast<double>(options_.workers),
                          0, &StageShares::starved, &StageShares::blocked);
  }
  return stats;
}

}  // namespace leat::feeder
