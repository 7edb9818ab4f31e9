#include "leat/overlap/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sample.h"
#include "leat/feeder/trace.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "leat/overlap/bare_loop.h"
#include "leat/overlap/compute.h"
#include "leat/overlap/progress.h"
#include "leat/overlap/shaped_dataset.h"

namespace overlap {
namespace {

using leat::feeder::Prefetcher;
using leat::gpu::Event;
using leat::gpu::Timing;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double over(double value, double by) { return by > 0 ? value / by : kUnknown; }

// Returns the CPU time of this process so far.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

std::size_t pinned_bytes(const std::vector<leat::gpu::Device>& devices) {
  std::size_t sum = 0;
  for (const leat::gpu::Device& device : devices) sum += device.memory().pinned.used;
  return sum;
}

// Converts the figures of the sampled steps to figures of all steps, whose mean is `t_step`. The
// time that a stage is busy stays. The rest of the step, waiting, is divided as in the sampled
// steps. Tread is of all steps already.
leat::feeder::Stats over_all_steps(leat::feeder::Stats stats, double t_step) {
  if (!stats.is_measured() || t_step <= 0) return stats;
  const double factor = stats.t_step / t_step;
  for (leat::feeder::StageShares* const stage : {&stats.reader, &stats.copier, &stats.consumer}) {
    if (!stage->is_known()) continue;
    const double waits = stage->starved + stage->blocked;
    stage->busy = std::min(stage->busy * factor, 1.0);
    if (waits > 0) {
      stage->starved *= (1 - stage->busy) / waits;
      stage->blocked *= (1 - stage->busy) / waits;
    } else {
      stage->starved = 1 - stage->busy;
    }
  }
  stats.samples_per_second *= factor;
  stats.t_step_error = 0;
  stats.t_step = t_step;
  stats.t_c = std::min(stats.t_c, t_step);
  stats.t_x = std::min(stats.t_x, t_step);
  return stats;
}

// Begins a phase. Returns the function that reports its progress.
Report report_of(const Effort& effort, Phase phase, std::uint64_t total) {
  if (effort.progress == nullptr) return [](std::uint64_t) {};
  effort.progress->begin(phase, total);
  return [progress = effort.progress](std::uint64_t done) { progress->advance(done); };
}

// Runs one rank's loop. Measures the mean time of a step, from release to release.
RankResult feed_rank(leat::feeder::Feed& feed, Compute& compute, const Effort& effort,
                     const Report& report) {
  const leat::gpu::Stream& stream = compute.stream();
  const Event start(stream.device(), Timing::kOn);
  const Event end(stream.device(), Timing::kOn);
  const std::uint64_t steps = effort.warm_up + effort.steps;
  std::uint64_t step = 0;
  for (std::uint64_t epoch = 0; step < steps; ++epoch) {
    for (leat::feeder::Lease& batch : feed.epoch(epoch, stream)) {
      compute.enqueue();
      batch.release();
      report(++step);
      if (step == effort.warm_up) {
        start.record(stream);
        feed.reset_stats();
      }
      if (step == steps) break;
    }
  }
  end.record(stream);
  end.sync();
  const double t_step = seconds(leat::gpu::elapsed(start, end)) / static_cast<double>(effort.steps);
  return {.t_step = t_step, .stats = over_all_steps(feed.stats(), t_step)};
}

void feed_all(const std::vector<leat::gpu::Device>& devices, const leat::feeder::Dataset& data,
              std::vector<std::unique_ptr<Compute>>& computes, const Effort& effort,
              Measurement& into) {
  const Shape& shape = into.shape;
  const std::size_t pinned_before = pinned_bytes(devices);
  std::vector<std::size_t> device_before;
  device_before.reserve(devices.size());
  for (const leat::gpu::Device& device : devices) {
    device_before.push_back(device.memory().device.used);
  }
  const auto trace = effort.trace == 0
                         ? nullptr
                         : std::make_shared<leat::feeder::Trace>(leat::feeder::TraceOptions{
                               .skip = effort.warm_up, .batches = effort.trace});
  const auto live =
      effort.live ? std::optional(leat::feeder::Live{.batches = effort.warm_up + effort.steps})
                  : std::nullopt;
  const Report report = report_of(effort, Phase::kLoop, effort.warm_up + effort.steps);
  Prefetcher prefetcher(data, devices,
                        {.batch_size = shape.batch_size * devices.size(),
                         .prefetch_depth = shape.prefetch_depth,
                         .workers = shape.workers,
                         .pinned_slots = shape.pinned_slots,
                         .order = leat::feeder::Order::kSequential,
                         .last_batch = leat::feeder::LastBatch::kDrop,
                         .max_pinned_bytes = shape.max_pinned_bytes,
                         .max_device_bytes = shape.max_device_bytes,
                         .trace = trace,
                         .live = live,
                         .sample_every = 1});  // the most that is possible: two steps in five
  // The live view, which draws after a tenth of a second, takes the terminal over.
  if (effort.live && effort.progress != nullptr) effort.progress->pause();
  into.pinned_bytes = pinned_bytes(devices) - pinned_before;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    into.device_bytes =
        std::max(into.device_bytes, devices[i].memory().device.used - device_before[i]);
  }
  into.ranks.resize(devices.size());
  const double cpu_before = cpu_seconds();
  leat::TaskGroup group;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    // cuBLAS may load and compile kernels on the caller's stack.
    constexpr std::size_t kStackSize = std::size_t{1} << 20;
    const auto loop = [&, rank] {
      const auto nothing = [](std::uint64_t) {};
      into.ranks[rank] =
          feed_rank(prefetcher.rank(rank), *computes[rank], effort, rank == 0 ? report : nothing);
    };
    group.go(loop, {.stack_size = kStackSize});
  }
  group.wait();
  into.cpu_seconds = cpu_seconds() - cpu_before;
  for (const RankResult& fed : into.ranks) {
    into.fed_bytes += fed.stats.batch_bytes * static_cast<double>(effort.warm_up + effort.steps);
  }
  if (trace != nullptr) into.trace = trace->json();
}

// Measures the link, Tx and Tc alone. Keeps the better of the old figure in `into` and the new one.
void measure_alone(const leat::gpu::Device& device, const Effort& effort, BareLoop& bare,
                   bool is_again, Measurement& into) {
  const Report again =
      is_again ? report_of(effort, Phase::kAgain, kTimesOfLink + 2 * kTimes) : Report();
  const auto report = [&](Phase phase, std::uint64_t times, std::uint64_t done_before) -> Report {
    if (!is_again) return report_of(effort, phase, times);
    return [&again, done_before](std::uint64_t done) { again(done_before + done); };
  };
  const double link = effort.link_peak > 0
                          ? effort.link_peak
                          : link_peak(device, report(Phase::kLink, kTimesOfLink, 0));
  const double t_x = bare.t_x_alone(report(Phase::kTx, kTimes, kTimesOfLink));
  const double t_c = bare.t_c_alone(report(Phase::kTc, kTimes, kTimesOfLink + kTimes));
  // Smaller copies can be faster than large ones, for instance in a CPU's caches.
  const double of_batch = t_x > 0 ? static_cast<double>(into.shape.batch_bytes()) / t_x : 0;
  into.link_peak = std::max({into.link_peak, link, of_batch});
  into.t_x_alone = is_again ? std::min(into.t_x_alone, t_x) : t_x;
  into.t_c_alone = is_again ? std::min(into.t_c_alone, t_c) : t_c;
}

// Limits the figures alone by those of the loop. A step contains its compute, and its copies used
// the link, so whatever the loop with a prefetcher reached, the machine can do.
void bound_by_loop(Measurement& measured) {
  const RankResult& slowest = measured.slowest();
  for (const double ratio : {over(measured.t_c_alone, slowest.t_step),
                             over(measured.t_replay, slowest.t_step), measured.link_efficiency()}) {
    if (ratio > measured.excess) measured.excess = ratio;  // NaN: not known
  }
  measured.t_c_alone = std::min(measured.t_c_alone, slowest.t_step);
  measured.t_replay = std::min(measured.t_replay, slowest.t_step);
  constexpr double kRounding = 1e-9;  // exact figures are not changed
  if (measured.link_efficiency() > 1 + kRounding) {
    measured.link_peak = slowest.stats.batch_bytes / slowest.stats.t_x;
  }
}

}  // namespace

const RankResult& Measurement::slowest() const {
  return *std::ranges::max_element(ranks, {}, &RankResult::t_step);
}

bool Measurement::is_sampled() const { return slowest().stats.is_measured(); }

double Measurement::overlap_efficiency(const RankResult& rank) {
  return rank.stats.is_measured() ? over(std::max(rank.stats.t_c, rank.stats.t_x), rank.t_step)
                                  : kUnknown;
}

double Measurement::overlap_efficiency() const { return overlap_efficiency(slowest()); }

double Measurement::feed_efficiency() const {
  if (!is_sampled()) return kUnknown;
  const leat::feeder::Stats& stats = slowest().stats;
  const double read =
      stats.t_read * static_cast<double>(devices) / static_cast<double>(shape.workers);
  return over(std::max({read, stats.t_c, stats.t_x}), slowest().t_step);
}

double Measurement::hidden_fraction() const {
  if (!is_sampled()) return kUnknown;
  const leat::feeder::Stats& stats = slowest().stats;
  const double shorter = std::min(stats.t_c, stats.t_x);
  return shorter > 0 ? std::clamp((stats.t_c + stats.t_x - slowest().t_step) / shorter, 0.0, 1.0)
                     : 1;
}

double Measurement::interference() const {
  return is_sampled() ? over(slowest().stats.t_c, t_c_alone) : kUnknown;
}

double Measurement::link_efficiency() const {
  const leat::feeder::Stats& stats = slowest().stats;
  return is_sampled() ? over(over(stats.batch_bytes, stats.t_x), link_peak) : kUnknown;
}

double Measurement::accelerator_utilization() const { return over(t_c_alone, slowest().t_step); }

double Measurement::speed_up() const { return over(t_serial, slowest().t_step); }

double Measurement::headspace() const { return over(slowest().t_step, t_replay) - 1; }

double Measurement::core_seconds_per_gb() const { return over(1e9 * cpu_seconds, fed_bytes); }

Measurement measure(const std::vector<leat::gpu::Device>& devices, const Shape& shape,
                    const Effort& effort, const leat::feeder::Dataset* given) {
  if (devices.empty()) throw std::invalid_argument("leat-overlap: no device");
  if (effort.steps == 0 || effort.warm_up == 0) {
    throw std::invalid_argument("leat-overlap: at least one step, and one to warm up");
  }
  shape.check();
  std::optional<ShapedDataset> shaped;
  const leat::feeder::Dataset& data = given != nullptr ? *given : shaped.emplace(shape);
  if (data.size() / devices.size() < shape.batch_size) {
    throw std::invalid_argument("leat-overlap: " + std::string(data.name()) + " has " +
                                std::to_string(data.size()) + " samples, fewer than a batch of " +
                                std::to_string(shape.batch_size) + " for each device");
  }
  Measurement measured;
  measured.shape = shape;
  measured.device = devices[0].name();
  measured.description = devices[0].info().description;
  measured.devices = devices.size();
  measured.steps = effort.steps;

  std::vector<std::unique_ptr<Compute>> computes;
  computes.reserve(devices.size());
  for (const leat::gpu::Device& device : devices) {
    computes.push_back(std::make_unique<Compute>(device, shape));
  }
  measured.compute = computes[0]->name();
  {
    const StepCounts steps{.warm_up = effort.warm_up, .measured = effort.steps};
    const std::uint64_t all = effort.warm_up + effort.steps;
    BareLoop bare(devices[0], shape, data, *computes[0]);
    measure_alone(devices[0], effort, bare, false, measured);
    measured.t_replay =
        bare.replay(steps, measured.t_c_alone, report_of(effort, Phase::kReplay, all));
    measured.t_serial = bare.serial(steps, report_of(effort, Phase::kSerial, all));
  }
  feed_all(devices, data, computes, effort, measured);
  {
    // Other processes may have disturbed every train before the loops.
    BareLoop bare(devices[0], shape, data, *computes[0]);
    measure_alone(devices[0], effort, bare, true, measured);
  }
  bound_by_loop(measured);
  if (effort.progress != nullptr) effort.progress->pause();
  return measured;
}

}  // namespace overlap
