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
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sample.h"
#include "leat/feeder/trace.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "leat/overlap/compute.h"
#include "leat/overlap/shaped_dataset.h"

namespace overlap {
namespace {

using leat::feeder::Prefetcher;
using leat::gpu::Event;
using leat::gpu::Timing;

// Of what is timed alone, one by one.
constexpr std::size_t kSamples = 15;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double over(double value, double by) { return by > 0 ? value / by : kUnknown; }

double seconds(leat::Duration length) { return std::chrono::duration<double>(length).count(); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Seconds that `work`, enqueued on `stream`, takes on a device that does nothing else.
template <class Work>
double alone(const leat::gpu::Stream& stream, const Work& work, std::size_t samples = kSamples) {
  const Event start(stream.device(), Timing::kOn);
  const Event end(stream.device(), Timing::kOn);
  std::vector<double> times;
  for (std::size_t i = 0; i <= samples; ++i) {
    start.record(stream);
    work();
    end.record(stream);
    end.sync();
    if (i > 0) times.push_back(seconds(leat::gpu::elapsed(start, end)));  // not the first
  }
  return median(std::move(times));
}

// What this process has computed so far.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// A batch's memory, and a loop without a prefetcher over it.
class Bare {
 public:
  Bare(const leat::gpu::Device& device, const Shape& shape, const leat::feeder::Dataset& data,
       Compute& compute)
      : shape_(shape),
        compute_(compute),
        data_(data),
        pinned_(device, shape.batch_bytes()),
        batch_(device, shape.batch_bytes()),
        copies_(device),
        copied_(device) {
    std::size_t offset = 0;
    for (const leat::feeder::Field& field : data_.fields()) {
      const std::size_t bytes = field.bytes() * shape.batch_size;
      tensors_.push_back(
          {.to = batch_.subspan(offset, bytes), .from = pinned_.subspan(offset, bytes)});
      offset += bytes;
    }
  }

  [[nodiscard]] double t_x() {
    return alone(copies_, [&] { leat::gpu::copy_async(copies_, tensors_); });
  }
  [[nodiscard]] double t_c() {
    return alone(compute_.stream(), [&] { compute_.enqueue(); });
  }
  // Steps on the batch that is there.
  [[nodiscard]] double replay(const Effort& effort) {
    return loop(effort, [&](std::uint64_t) { compute_.enqueue(); });
  }
  // Steps that read, copy and compute in turns.
  [[nodiscard]] double serial(const Effort& effort) {
    return loop(effort, [&](std::uint64_t step) {
      read(step);
      leat::gpu::copy_async(copies_, tensors_);
      copied_.record(copies_);
      copied_.sync();
      compute_.enqueue();
      compute_.stream().sync();
    });
  }

 private:
  template <class Step>
  double loop(const Effort& effort, const Step& step) {
    const leat::gpu::Stream& stream = compute_.stream();
    const Event start(stream.device(), Timing::kOn);
    const Event end(stream.device(), Timing::kOn);
    for (std::uint64_t k = 0; k < effort.warm_up + effort.steps; ++k) {
      if (k == effort.warm_up) start.record(stream);
      step(k);
    }
    end.record(stream);
    end.sync();
    return seconds(leat::gpu::elapsed(start, end)) / static_cast<double>(effort.steps);
  }

  void read(std::uint64_t batch) {
    std::vector<std::span<std::byte>> rooms(tensors_.size());
    std::vector<std::size_t> lengths(tensors_.size());
    for (std::size_t i = 0; i < shape_.batch_size; ++i) {
      for (std::size_t t = 0; t < tensors_.size(); ++t) {
        const std::size_t bytes = data_.fields()[t].bytes();
        rooms[t] = tensors_[t].from.subspan(i * bytes, bytes).bytes();
      }
      const std::uint64_t index = (batch * shape_.batch_size + i) % data_.size();
      scratch_.reset();
      leat::feeder::Sample sample(data_.fields(), rooms, lengths, 0,
                                  leat::feeder::Random(0, 0, index), scratch_);
      data_.read(index, sample);
    }
  }

  const Shape& shape_;
  Compute& compute_;
  const leat::feeder::Dataset& data_;
  const leat::gpu::PinnedBuffer pinned_;
  const leat::gpu::DeviceBuffer batch_;
  const leat::gpu::Stream copies_;
  const Event copied_;
  std::vector<leat::gpu::CopyToDevice> tensors_;
  leat::feeder::Scratch scratch_;
};

std::size_t pinned_bytes(const std::vector<leat::gpu::Device>& devices) {
  std::size_t sum = 0;
  for (const leat::gpu::Device& device : devices) sum += device.memory().pinned.used;
  return sum;
}

// As if all steps had been sampled: their mean is known, and Tread is of all of them as well. What
// a stage is busy for stays; what is left of the step, waiting, is shared as in the sampled ones.
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
  stats.t_step = t_step;
  return stats;
}

// One rank's loop: mean time of a step, from release to release.
Fed feed_rank(leat::feeder::Feed& feed, Compute& compute, const Effort& effort) {
  const leat::gpu::Stream& stream = compute.stream();
  const Event start(stream.device(), Timing::kOn);
  const Event end(stream.device(), Timing::kOn);
  const std::uint64_t steps = effort.warm_up + effort.steps;
  std::uint64_t step = 0;
  for (std::uint64_t epoch = 0; step < steps; ++epoch) {
    for (leat::feeder::Lease& batch : feed.epoch(epoch, stream)) {
      compute.enqueue();
      batch.release();
      ++step;
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
              Measured& into) {
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
                         .sample_every = 1});  // as many as there can be: two steps in five
  into.pinned_bytes = pinned_bytes(devices) - pinned_before;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    into.device_bytes =
        std::max(into.device_bytes, devices[i].memory().device.used - device_before[i]);
  }
  into.ranks.resize(devices.size());
  const double cpu_before = cpu_seconds();
  leat::TaskGroup group;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    group.go([&, rank] {
      into.ranks[rank] = feed_rank(prefetcher.rank(rank), *computes[rank], effort);
    });
  }
  group.wait();
  into.cpu_seconds = cpu_seconds() - cpu_before;
  for (const Fed& fed : into.ranks) {
    into.fed_bytes += fed.stats.batch_bytes * static_cast<double>(effort.warm_up + effort.steps);
  }
  if (trace != nullptr) into.trace = trace->json();
}

}  // namespace

double link_peak(const leat::gpu::Device& device) {
  const leat::gpu::PinnedBuffer from(device, kPeakBytes);
  const leat::gpu::DeviceBuffer to(device, kPeakBytes);
  const leat::gpu::Stream stream(device);
  const auto rate = [&](std::size_t bytes, std::size_t samples) {
    const double time = alone(
        stream,
        [&] { leat::gpu::copy_async(stream, to.subspan(0, bytes), from.subspan(0, bytes)); },
        samples);
    return time > 0 ? static_cast<double>(bytes) / time : 0;
  };
  constexpr std::size_t kProbe = std::size_t{64} << 10;
  constexpr double kTime = 20e-3;
  const double least = rate(kProbe, 1);
  if (least <= 0) return 0;
  const double bytes = std::min(least * kTime, static_cast<double>(kPeakBytes));
  return bytes <= kProbe ? least : rate(static_cast<std::size_t>(bytes), kSamples);
}

const Fed& Measured::slowest() const { return *std::ranges::max_element(ranks, {}, &Fed::t_step); }

bool Measured::is_sampled() const { return slowest().stats.is_measured(); }

double Measured::overlap_efficiency(const Fed& rank) {
  return rank.stats.is_measured() ? over(std::max(rank.stats.t_c, rank.stats.t_x), rank.t_step)
                                  : kUnknown;
}

double Measured::overlap_efficiency() const { return overlap_efficiency(slowest()); }

double Measured::feed_efficiency() const {
  if (!is_sampled()) return kUnknown;
  const leat::feeder::Stats& stats = slowest().stats;
  const double read =
      stats.t_read * static_cast<double>(devices) / static_cast<double>(shape.workers);
  return over(std::max({read, stats.t_c, stats.t_x}), slowest().t_step);
}

double Measured::hidden_fraction() const {
  if (!is_sampled()) return kUnknown;
  const leat::feeder::Stats& stats = slowest().stats;
  const double shorter = std::min(stats.t_c, stats.t_x);
  return shorter > 0 ? std::clamp((stats.t_c + stats.t_x - slowest().t_step) / shorter, 0.0, 1.0)
                     : 1;
}

double Measured::interference() const {
  return is_sampled() ? over(slowest().stats.t_c, t_c_alone) : kUnknown;
}

double Measured::link_efficiency() const {
  const leat::feeder::Stats& stats = slowest().stats;
  return is_sampled() ? over(over(stats.batch_bytes, stats.t_x), link_peak) : kUnknown;
}

double Measured::accelerator_utilization() const { return over(t_c_alone, slowest().t_step); }

double Measured::speed_up() const { return over(t_serial, slowest().t_step); }

double Measured::headspace() const { return over(slowest().t_step, t_replay) - 1; }

double Measured::core_seconds_per_gb() const { return over(1e9 * cpu_seconds, fed_bytes); }

Measured measure(const std::vector<leat::gpu::Device>& devices, const Shape& shape,
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
  Measured measured;
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
  measured.link_peak = effort.link_peak > 0 ? effort.link_peak : link_peak(devices[0]);
  {
    Bare bare(devices[0], shape, data, *computes[0]);
    measured.t_x_alone = bare.t_x();
    measured.t_c_alone = bare.t_c();
    measured.t_replay = bare.replay(effort);
    measured.t_serial = bare.serial(effort);
  }
  feed_all(devices, data, computes, effort, measured);
  return measured;
}

}  // namespace overlap
