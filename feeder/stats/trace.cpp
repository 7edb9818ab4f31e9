#include "leat/feeder/trace.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/feeder/stats/device_trace.h"
#include "leat/gpu/trace_writer.h"

namespace leat::feeder {
namespace {

constexpr std::size_t kMostBatches = 100'000;
// The notes that a batch makes: read, staged, leased, bound, released, ended.
constexpr std::size_t kNotes = 6;

// The viewer shows the host and each device as a process.
constexpr std::size_t kHost = 1;
constexpr std::size_t kFirstDevice = 10;
// The threads of the host's process: readers, then each rank's copier and slots.
constexpr std::size_t kFirstReader = 1;
constexpr std::size_t kFirstRank = 10'000;
constexpr std::size_t kTracksOfRank = 10'000;
// The threads of a device's process.
constexpr std::size_t kCopies = 1;
constexpr std::size_t kCompute = 2;

using Track = gpu::TraceWriter::Track;

void add_span(gpu::TraceWriter& out, const char* name, const Track& track, Duration begin,
              Duration end, const TracedBatch& of) {
  const std::string index = std::to_string(of.batch.index);
  out.span(std::string(name) + ' ' + index, track, begin, end,
           "\"epoch\":" + std::to_string(of.batch.epoch) + ",\"batch\":" + index + ",\"samples\":" +
               std::to_string(of.batch.samples) + ",\"bytes\":" + std::to_string(of.bytes));
}

}  // namespace

Trace::Trace(const TraceOptions& options) : options_(options) {
  if (options.batches == 0 || options.batches > kMostBatches) {
    throw std::invalid_argument("leat: a trace of " + std::to_string(options.batches) +
                                " batches; 1 to " + std::to_string(kMostBatches) +
                                " can be recorded");
  }
}

Trace::~Trace() = default;

std::shared_ptr<DeviceTrace> Trace::make(const gpu::Stream& copies, const LocalRank& rank) {
  auto device = std::make_shared<DeviceTrace>(copies, rank, options_);
  const std::scoped_lock lock(mutex_);
  // Drops the part of a prefetcher that was destroyed before it recorded anything, for instance by
  // an exception in its constructor.
  std::erase_if(devices_, [](const auto& one) { return one.use_count() == 1 && one->is_unused(); });
  if (std::ranges::any_of(devices_, [&](const auto& one) { return one->rank() == rank.index; })) {
    throw std::invalid_argument(
        "leat: a trace records one prefetcher, and this one has one already");
  }
  devices_.push_back(device);
  return device;
}

std::string Trace::json() const {
  const std::scoped_lock lock(mutex_);
  gpu::TraceWriter events;
  std::optional<TimePoint> origin;
  for (const auto& device : devices_) {
    origin = origin.has_value() ? std::min(*origin, device->origin()) : device->origin();
  }
  if (origin.has_value()) events.name_process(kHost, "host");
  for (const auto& device : devices_) device->write(events, *origin);
  return events.json();
}

std::string Trace::timeline(const TimelineOptions& options) const {
  const std::scoped_lock lock(mutex_);
  if (devices_.empty()) return timeline_text({}, options);
  std::string text;
  for (const auto& device : devices_) {
    if (devices_.size() > 1) text += device->name() + "\n";
    text += timeline_text(device->steps(), options);
  }
  return text;
}

void Trace::save(const std::filesystem::path& file) const { gpu::save_trace(json(), file); }

TracedBatch::TracedBatch(const gpu::Device& device, std::size_t which)
    : number(which),
      copy_begin(device, gpu::Timing::kOn),
      copy_end(device, gpu::Timing::kOn),
      use_begin(device, gpu::Timing::kOn),
      use_end(device, gpu::Timing::kOn) {}

DeviceTrace::DeviceTrace(const gpu::Stream& stream, const LocalRank& rank,
                         const TraceOptions& options)
    : rank_(rank.index),
      rank_of_world_(rank.of_world),
      name_(stream.device().name()),
      skip_(options.skip),
      anchor_(stream.device(), gpu::Timing::kOn) {
  batches_.reserve(options.batches);
  for (std::size_t i = 0; i < options.batches; ++i) {
    batches_.push_back(std::make_unique<TracedBatch>(stream.device(), i));
  }
  occupancies_.reserve(kNotes * options.batches);
  anchor_.record(stream);
  anchor_.sync();
  anchored_ = now();
}

TracedBatch* DeviceTrace::next() noexcept {
  const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  if (number < skip_ || number - skip_ >= batches_.size()) return nullptr;
  return batches_[number - skip_].get();
}

std::vector<DeviceTrace::Work> DeviceTrace::work_done(TimePoint origin) const {
  const auto between = [&](const gpu::Event& begin, const gpu::Event& end) {
    const Duration anchored = anchored_ - origin;
    return DeviceSpan{.begin = anchored + elapsed(anchor_, begin),
                      .end = anchored + elapsed(anchor_, end)};
  };
  std::vector<Work> all;
  for (const auto& one : batches_) {
    if (!one->is_read) continue;
    Work& work = all.emplace_back(Work{.batch = one.get(), .copy = {}, .use = {}});
    if (!one->is_copied || !one->copy_end.is_done()) continue;
    work.copy = between(one->copy_begin, one->copy_end);
    if (one->is_released && one->use_end.is_done()) {
      work.use = between(one->use_begin, one->use_end);
    }
  }
  std::ranges::stable_sort(
      all, {}, [](const Work& work) { return work.copy ? work.copy->end : Duration::max(); });
  // With several leases at a time, the work on a batch begins when the work before it ends.
  Duration used_until{Duration::min()};
  for (Work& work : all) {
    if (!work.use) continue;
    DeviceSpan& use = *work.use;
    use.begin = std::min(std::max(use.begin, used_until), use.end);
    used_until = std::max(used_until, use.end);  // leases may be released in another order
  }
  return all;
}

std::vector<TimedStep> DeviceTrace::steps() const {
  const std::scoped_lock lock(mutex_);
  std::vector<TimedStep> steps;
  for (const Work& work : work_done(anchored_)) {
    if (work.use) steps.push_back({.copy = *work.copy, .use = *work.use});
  }
  return steps;
}

void DeviceTrace::write(gpu::TraceWriter& out, TimePoint origin) const {
  const std::scoped_lock lock(mutex_);
  const std::size_t device = kFirstDevice + rank_;
  const std::size_t first_track = kFirstRank + rank_ * kTracksOfRank;
  const std::string rank = "rank " + std::to_string(rank_of_world_);
  const Track copies{device, kCopies};
  const Track compute{device, kCompute};
  const Track copier{kHost, first_track};
  const Track consumer{kHost, first_track + kTracksOfRank - 1};
  const auto since = [&](TimePoint time) { return time - origin; };
  out.name_process(device, rank + ": " + name_);
  out.name_track(copies, "copies");
  out.name_track(compute, "work on batches");
  out.name_track(copier, rank + ": copier waits for a device slot");
  out.name_track(consumer, rank + ": consumer waits for a batch");

  std::vector<bool> readers;
  std::vector<bool> slots;
  const auto first_use = [](std::vector<bool>& seen, std::size_t number) {
    if (seen.size() <= number) seen.resize(number + 1);
    const bool is_first = !seen[number];
    seen[number] = true;
    return is_first;
  };
  for (const auto& [one, copy, use] : work_done(origin)) {
    const std::size_t id = kMostBatches * rank_ + one->number;
    const Track reader{kHost, kFirstReader + one->reader};
    if (first_use(readers, one->reader)) {
      out.name_track(reader, "reader " + std::to_string(one->reader));
    }
    add_span(out, "read", reader, since(one->read.begin), since(one->read.end), *one);
    if (!copy) continue;
    out.arrow('s', "batch", id, reader, since(one->read.begin));
    if (one->wait_for_slot.end > one->wait_for_slot.begin) {
      add_span(out, "wait", copier, since(one->wait_for_slot.begin), since(one->wait_for_slot.end),
               *one);
    }
    add_span(out, "copy", copies, copy->begin, copy->end, *one);
    out.arrow(use ? 't' : 'f', "batch", id, copies, copy->begin);
    if (one->is_leased && one->wait_for_batch.end > one->wait_for_batch.begin) {
      add_span(out, "wait", consumer, since(one->wait_for_batch.begin),
               since(one->wait_for_batch.end), *one);
    }
    if (one->has_ended) {
      const Track slot{kHost, first_track + 1 + one->slot};
      if (first_use(slots, one->slot)) {
        out.name_track(slot, rank + ": device slot " + std::to_string(one->slot));
      }
      add_span(out, "lease", slot, since(one->lease.begin), since(one->lease.end), *one);
    }
    if (!use) continue;
    add_span(out, "use", compute, use->begin, use->end, *one);
    out.arrow('f', "batch", id, compute, use->begin);
  }
  for (const Occupancy& one : occupancies_) {
    out.counter(rank + " slots", kHost, since(one.at),
                "\"filled\":" + std::to_string(one.filled) +
                    ",\"ready\":" + std::to_string(one.ready) +
                    ",\"free on device\":" + std::to_string(one.free_device));
  }
}

}  // namespace leat::feeder
