#include "leat/feeder/trace.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/feeder/trace/device_trace.h"
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
              Duration end, const StagedRecord& of) {
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

void DeviceTrace::copy_begins(BatchRecord& batch) noexcept {
  const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  const bool is_recorded = number >= skip_ && number - skip_ < batches_.size();
  batch.traced = is_recorded ? batches_[number - skip_].get() : nullptr;
  batch.marks[1] = is_recorded ? &batch.traced->marks : nullptr;
  copied(batch);
}

void DeviceTrace::copied(BatchRecord& batch) noexcept {
  const StagedRecord& record = batch;
  note(batch, [&](TracedBatch& one, TimePoint) { one.record = record; });
}

void DeviceTrace::handed_out(BatchRecord& batch) noexcept {
  if (!batch.is_own_time) return;
  note(batch, [&](TracedBatch& one, TimePoint at) {
    one.wait_for_batch = {.begin = at - batch.starved, .end = at};
  });
}

void DeviceTrace::used(BatchRecord& batch) noexcept {
  note(batch, [](TracedBatch&, TimePoint) {});
}

void DeviceTrace::step_ended(BatchRecord& batch) noexcept {
  if (batch.is_used) used(batch);
}

void DeviceTrace::given_back(BatchRecord& batch) noexcept {
  if (!batch.is_own_time || !batch.ended_in_own_time) return;
  note(batch, [](TracedBatch& one, TimePoint at) { one.ended = at; });
}

// Notes how full the channels are, and calls write(traced, now) under the lock, if the batch is
// traced.
template <class Write>
void DeviceTrace::note(const BatchRecord& batch, const Write& write) noexcept {
  if (batch.traced == nullptr) return;
  const Occupancy occupancy = look_();
  const std::scoped_lock lock(mutex_);
  write(*batch.traced, occupancy.at);
  if (occupancies_.size() < occupancies_.capacity()) occupancies_.push_back(occupancy);
}

std::vector<DeviceTrace::Work> DeviceTrace::work_done(TimePoint origin) const {
  const auto between = [&](const gpu::Event& begin, const gpu::Event& end) {
    const Duration anchored = anchored_ - origin;
    return DeviceSpan{.begin = anchored + elapsed(anchor_, begin),
                      .end = anchored + elapsed(anchor_, end)};
  };
  std::vector<Work> all;
  for (const auto& one : batches_) {
    if (one->record.traced == nullptr) continue;  // is not read
    const Marks& marks = one->marks;
    Work& work = all.emplace_back(Work{.batch = one.get(), .copy = {}, .use = {}});
    if (!marks.has(Mark::kCopyEnds) || !marks[Mark::kCopyEnds].is_done()) continue;
    work.copy = between(marks[Mark::kCopyBegins], marks[Mark::kCopyEnds]);
    if (marks.has(Mark::kUseEnds) && marks[Mark::kUseEnds].is_done()) {
      work.use = between(marks[Mark::kUseBegins], marks[Mark::kUseEnds]);
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
    const StagedRecord& record = one->record;
    const auto add = [&](const char* what, const Track& track, const Stretch& stretch) {
      add_span(out, what, track, since(stretch.begin), since(stretch.end), record);
    };
    const std::size_t id = kMostBatches * rank_ + one->number;
    const Track reader{kHost, kFirstReader + record.reader};
    if (first_use(readers, record.reader)) {
      out.name_track(reader, "reader " + std::to_string(record.reader));
    }
    add("read", reader, record.read);
    if (!copy) continue;
    out.arrow('s', "batch", id, reader, since(record.read.begin));
    const Stretch& wait_for_slot = record.wait_for_slot;
    if (wait_for_slot.end > wait_for_slot.begin) add("wait", copier, wait_for_slot);
    add_span(out, "copy", copies, copy->begin, copy->end, record);
    out.arrow(use ? 't' : 'f', "batch", id, copies, copy->begin);
    const Stretch& wait = one->wait_for_batch;
    if (wait.end > wait.begin) add("wait", consumer, wait);
    if (one->ended.has_value()) {
      const Track slot{kHost, first_track + 1 + record.slot};
      if (first_use(slots, record.slot)) {
        out.name_track(slot, rank + ": device slot " + std::to_string(record.slot));
      }
      add("lease", slot, {.begin = wait.end, .end = *one->ended});
    }
    if (!use) continue;
    add_span(out, "use", compute, use->begin, use->end, record);
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
