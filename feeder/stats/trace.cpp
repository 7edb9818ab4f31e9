#include "leat/feeder/trace.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <utility>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/stats/device_trace.h"

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

[[gnu::format(printf, 2, 3)]] void add(std::string& out, const char* format, ...) {
  std::array<char, 512> line{};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  out += line.data();
}

double microseconds(Duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

struct Track {
  std::size_t process;
  std::size_t thread;
};

void add_name(std::string& out, const char* what, const Track& track, const std::string& name) {
  add(out,
      R"({"ph":"M","name":"%s","pid":%zu,"tid":%zu,"args":{"name":"%s"}},)"
      "\n",
      what, track.process, track.thread, name.c_str());
}

void add_span(std::string& out, const char* name, const Track& track, Duration begin, Duration end,
              const TracedBatch& of) {
  add(out,
      R"({"ph":"X","name":"%s %llu","cat":"leat","pid":%zu,"tid":%zu,"ts":%.3f,"dur":%.3f,)"
      R"("args":{"epoch":%llu,"batch":%llu,"samples":%zu,"bytes":%zu}},)"
      "\n",
      name, static_cast<unsigned long long>(of.batch.index), track.process, track.thread,
      microseconds(begin), microseconds(std::max(end - begin, Duration::zero())),
      static_cast<unsigned long long>(of.batch.epoch),
      static_cast<unsigned long long>(of.batch.index), of.batch.samples, of.bytes);
}

// Appends a part of an arrow. The arrow begins ("s"), continues ("t") or ends ("f") at the span on
// that track at that time: `phase`.
void add_arrow(std::string& out, const char* phase, std::size_t id, const Track& track,
               Duration at) {
  add(out,
      R"({"ph":"%s","name":"batch","cat":"leat","id":%zu,"pid":%zu,"tid":%zu,"ts":%.3f,"bp":"e"},)"
      "\n",
      phase, id, track.process, track.thread, microseconds(at));
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
  std::string events;
  std::optional<TimePoint> origin;
  for (const auto& device : devices_) {
    origin = origin.has_value() ? std::min(*origin, device->origin()) : device->origin();
  }
  if (origin.has_value()) add_name(events, "process_name", {kHost, 0}, "host");
  for (const auto& device : devices_) device->write(events, *origin);
  if (!events.empty()) events.erase(events.size() - 2, 1);  // the last comma
  return R"({"displayTimeUnit":"ms","traceEvents":[)"
         "\n" +
         events + "]}\n";
}

void Trace::save(const std::filesystem::path& file) const {
  const std::string text = json();
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw Error("leat: cannot write the trace to " + file.string());
}

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

void DeviceTrace::write(std::string& out, TimePoint origin) const {
  const std::scoped_lock lock(mutex_);
  const std::size_t device = kFirstDevice + rank_;
  const std::size_t first_track = kFirstRank + rank_ * kTracksOfRank;
  const std::string rank = "rank " + std::to_string(rank_of_world_);
  const Track copies{device, kCopies};
  const Track compute{device, kCompute};
  const Track copier{kHost, first_track};
  const Track consumer{kHost, first_track + kTracksOfRank - 1};
  const auto since = [&](TimePoint time) { return time - origin; };
  const auto of_event = [&](const gpu::Event& event) {
    return since(anchored_) + elapsed(anchor_, event);
  };
  add_name(out, "process_name", {device, 0}, rank + ": " + name_);
  add_name(out, "thread_name", copies, "copies");
  add_name(out, "thread_name", compute, "work on batches");
  add_name(out, "thread_name", copier, rank + ": copier waits for a device slot");
  add_name(out, "thread_name", consumer, rank + ": consumer waits for a batch");

  std::vector<bool> readers;
  std::vector<bool> slots;
  const auto first_use = [](std::vector<bool>& seen, std::size_t number) {
    if (seen.size() <= number) seen.resize(number + 1);
    const bool is_first = !seen[number];
    seen[number] = true;
    return is_first;
  };
  // In the order in which the device copied them. Batches that it has not copied come last.
  std::vector<std::pair<Duration, const TracedBatch*>> in_order;
  for (const auto& one : batches_) {
    if (!one->is_read) continue;
    const bool is_copied = one->is_copied && one->copy_end.is_done();
    in_order.emplace_back(is_copied ? of_event(one->copy_end) : Duration::max(), one.get());
  }
  std::ranges::stable_sort(in_order, {}, &std::pair<Duration, const TracedBatch*>::first);

  Duration used_until{Duration::min()};
  for (const auto& [copied, one] : in_order) {
    const std::size_t id = kMostBatches * rank_ + one->number;
    const Track reader{kHost, kFirstReader + one->reader};
    if (first_use(readers, one->reader)) {
      add_name(out, "thread_name", reader, "reader " + std::to_string(one->reader));
    }
    add_span(out, "read", reader, since(one->read.begin), since(one->read.end), *one);
    if (copied == Duration::max()) continue;
    add_arrow(out, "s", id, reader, since(one->read.begin));
    if (one->wait_for_slot.end > one->wait_for_slot.begin) {
      add_span(out, "wait", copier, since(one->wait_for_slot.begin), since(one->wait_for_slot.end),
               *one);
    }
    const Duration copy_begin = of_event(one->copy_begin);
    add_span(out, "copy", copies, copy_begin, copied, *one);
    const bool is_used = one->is_released && one->use_end.is_done();
    add_arrow(out, is_used ? "t" : "f", id, copies, copy_begin);
    if (one->is_leased && one->wait_for_batch.end > one->wait_for_batch.begin) {
      add_span(out, "wait", consumer, since(one->wait_for_batch.begin),
               since(one->wait_for_batch.end), *one);
    }
    if (one->has_ended) {
      const Track slot{kHost, first_track + 1 + one->slot};
      if (first_use(slots, one->slot)) {
        add_name(out, "thread_name", slot, rank + ": device slot " + std::to_string(one->slot));
      }
      add_span(out, "lease", slot, since(one->lease.begin), since(one->lease.end), *one);
    }
    if (!is_used) continue;
    // With several leases at a time, the work on a batch begins when the work before it ends.
    const Duration end = of_event(one->use_end);
    const Duration begin = std::min(std::max(of_event(one->use_begin), used_until), end);
    used_until = std::max(used_until, end);  // leases may be released in another order
    add_span(out, "use", compute, begin, end, *one);
    add_arrow(out, "f", id, compute, begin);
  }
  for (const Occupancy& one : occupancies_) {
    add(out,
        R"({"ph":"C","name":"%s slots","pid":%zu,"ts":%.3f,)"
        R"("args":{"filled":%zu,"ready":%zu,"free on device":%zu}},)"
        "\n",
        rank.c_str(), kHost, microseconds(since(one.at)), one.filled, one.ready, one.free_device);
  }
}

}  // namespace leat::feeder
