#include "leat/overlap/trace/figures/analysis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "leat/overlap/trace/figures/loop.h"
#include "leat/overlap/trace/figures/verdict.h"
#include "leat/overlap/trace/readers/bytes.h"

namespace overlap::trace {
namespace {

constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;

std::vector<NameTime> sorted_names(const Trace& trace, const std::vector<NameTime>& by_name) {
  std::vector<NameTime> found;
  for (std::size_t i = 0; i < by_name.size(); ++i) {
    if (by_name[i].count == 0) continue;
    found.push_back(by_name[i]);
    found.back().name = trace.names[static_cast<std::uint32_t>(i)];
  }
  std::ranges::stable_sort(found, std::greater{}, &NameTime::time);
  return found;
}

// How many of these ops, which begin at one time, equal one before them.
std::uint64_t equal_ones(std::vector<const Op*>& ops) {
  if (ops.size() < 2) return 0;
  const auto key = [](const Op* op) { return std::tuple(op->stream, op->end, op->name); };
  std::ranges::sort(ops, {}, key);
  std::uint64_t equal = 0;
  for (std::size_t i = 1; i < ops.size(); ++i) equal += key(ops[i]) == key(ops[i - 1]) ? 1U : 0U;
  return equal;
}

void count_ops(const Trace& trace, const Device& device, DeviceReport& report) {
  std::map<std::pair<Kind, Memory>, Copies> copies;
  std::vector<NameTime> names(trace.names.size());
  std::vector<const Op*> together;  // ops that begin at one time
  std::vector<Time> ends(device.streams.size());
  for (const std::string& stream : device.streams) report.streams.push_back({.name = stream});
  for (const Op& op : device.ops) {
    const Time length = op.end - op.begin;
    StreamTime& stream = report.streams[op.stream];
    ++stream.ops;
    add_within(stream.of[static_cast<std::size_t>(op.kind)], length);
    report.graphs += op.is_graph ? 1U : 0U;
    if (report.steps.time.has(op.begin)) {
      ++names[op.name].count;
      add_within(names[op.name].time, length);
    }
    if (op.kind == Kind::kH2d || op.kind == Kind::kD2h) {
      Copies& of = copies[{op.kind, op.memory}];
      ++of.count;
      of.bytes += op.bytes;
      if (op.bytes >= kLarge) {
        of.large_bytes += op.bytes;
        add_within(of.large_time, length);
      }
    }
    report.odd.overlap_in_stream += op.begin < ends[op.stream] ? 1U : 0U;
    if (!together.empty() && together.front()->begin != op.begin) {
      report.odd.equal += equal_ones(together);
      together.clear();
    }
    together.push_back(&op);
    report.odd.before_launch += op.call != kNone && op.begin < trace.calls[op.call].begin ? 1U : 0U;
    report.odd.without_call += op.call == kNone ? 1U : 0U;
    ends[op.stream] = std::max(ends[op.stream], op.end);
  }
  report.odd.equal += equal_ones(together);
  for (auto& [key, of] : copies) {
    std::tie(of.direction, of.memory) = key;
    report.copies.push_back(of);
  }
  std::ranges::stable_sort(report.streams, std::greater{}, [](const StreamTime& stream) {
    Time all = 0;
    for (const Time time : stream.of) add_within(all, time);
    return all;
  });
  report.names = sorted_names(trace, names);
}

// What pageable copies of 1 MiB and more would save in the window, if they were as fast as pinned
// ones; std::nullopt: nothing tells which copies these are, or how fast pinned ones are.
std::optional<Time> saved_by_pinning(const Device& device, const DeviceReport& report,
                                     const std::optional<double>& link) {
  Time saved = 0;
  for (const Kind direction : {Kind::kH2d, Kind::kD2h}) {
    std::optional<double> rate = link;
    for (const Copies& of : report.copies) {
      if (of.direction == direction && of.memory == Memory::kPinned && of.rate()) rate = of.rate();
    }
    std::uint64_t bytes = 0;
    Time time = 0;
    for (const Op& op : device.ops) {
      if (op.kind != direction || !report.steps.time.has(op.begin)) continue;
      if (op.bytes < kLarge && (op.bytes > 0 || op.memory != Memory::kUnknown)) continue;
      if (op.memory == Memory::kUnknown) return std::nullopt;
      if (op.memory == Memory::kPinned) continue;
      bytes += op.bytes;
      add_within(time, op.end - op.begin);
    }
    if (bytes == 0) continue;
    if (!rate) return std::nullopt;
    // Slower than the pageable ones were: nothing is saved, and the time may be beyond 64 bits.
    const double pinned = static_cast<double>(bytes) / *rate * 1e9;
    const Time most = pinned < static_cast<double>(time) ? time - std::llround(pinned) : 0;
    add_within(saved, std::max<Time>(most, 0));
  }
  return saved;
}

void add_what_if(const Device& device, const std::optional<double>& link, DeviceReport& report) {
  const Figures& mean = report.mean;
  const Time most = mean.most();
  const Time computing = std::max(mean[Part::kCompute], mean[Part::kComm]);
  const auto less = [&](Time saved, Time least) { return std::max(mean.length - saved, least); };
  const Time data = mean[Cause::kData];
  report.what_if = {
      {"copies", "copies hidden (a side stream, two batches ahead)",
       less(mean[Part::kExposedCopies], most)},
      {"comm", "communication hidden", less(mean[Part::kExposedComm], most)},
      {"both", "both hidden", less(mean[Part::kExposed], most)},
      {"pinned", "host memory pinned", std::nullopt},
      {"data", "data never awaited", less(data, most)},
      {"all", "both hidden, and data never awaited", less(mean[Part::kExposed] + data, most)},
  };
  const std::optional<Time> pinned = saved_by_pinning(device, report, link);
  if (pinned)
    report.what_if[3].best = less(std::min(*pinned, mean[Part::kExposedCopies]), computing);
}

DeviceReport report_of(const Trace& trace, const Device& device, const Busy& of, const Idle& idle,
                       Steps steps, const Loop* loop, const AnalysisOptions& options) {
  DeviceReport report{.number = device.number, .name = device.name, .ops = device.ops.size()};
  report.steps = std::move(steps);
  report.whole = figures(of, idle, device.all());
  for (const Step& step : report.steps.all) {
    report.of_steps.push_back(step.is_empty ? Figures{} : figures(of, idle, step.device));
  }
  report.mean = figures(of, idle, report.steps.time);
  report.steps_in_mean = std::max<std::uint64_t>(report.steps.measured, 1);
  std::vector<NameTime> calls(trace.names.size());
  for (const Host::Piece& piece : idle.calls) {
    const Time length = report.steps.time.within(piece.at);
    if (length <= 0) continue;
    ++calls[piece.name].count;
    calls[piece.name].time += length;
  }
  report.calls = sorted_names(trace, calls);
  report.link = options.link.value_or(link_of(device.name));
  count_ops(trace, device, report);
  if (loop == nullptr) {
    add_what_if(device, options.link, report);
  } else {
    report.copies.clear();  // its trace has no bytes
    report.odd = {};        // nor calls
    add_loop(*loop, report);
  }
  report.timelines = timelines(trace, device, idle, report.steps);
  report.verdict = verdict(report);
  return report;
}

}  // namespace

std::optional<double> Copies::rate() const noexcept {
  if (large_time <= 0) return std::nullopt;
  return static_cast<double>(large_bytes) / static_cast<double>(large_time) * 1e9;
}

TraceReport analyze(const Trace& trace, const AnalysisOptions& options) {
  TraceReport report{.file = trace.file,
                     .format = trace.format,
                     .rank = trace.rank,
                     .partial = trace.partial,
                     .oddities = trace.oddities,
                     .devices = {}};
  const Host host(trace, options.rules);
  std::optional<std::int64_t> other;  // device that was not asked for
  const auto is_asked = [&](const Device& device) {
    if (!options.device || device.number == *options.device) return true;
    if (!other) other = device.number;
    return false;
  };
  for (const Device& device : trace.devices) {
    if (!is_asked(device)) continue;
    const Busy of = busy(device.ops);
    const Span whole = device.all();
    const Span all{std::min(whole.begin, host.all().begin), std::max(whole.end, host.all().end)};
    report.devices.push_back(
        report_of(trace, device, of, idle(trace, host, device, of[Part::kBusy], all),
                  find_steps(trace, device, options.rules, options.steps), nullptr, options));
  }
  const bool shares_out = share_out(trace.loops);
  for (std::size_t i = 0; i < trace.loops.size(); ++i) {
    const Loop& loop = trace.loops[i];
    const LoopDevice as = device_of(loop, static_cast<std::int64_t>(i));
    const Device& device = as.trace.devices.front();
    if (!is_asked(device)) continue;
    report.devices.push_back(report_of(
        as.trace, device, busy(device.ops), as.idle,
        find_steps(loop, device, options.rules, options.steps, shares_out), &loop, options));
  }
  if (!report.devices.empty()) return report;
  if (other) {
    throw Unreadable(trace.file + ": it has no op of device " + std::to_string(*options.device) +
                     "; it has some of device " + std::to_string(*other));
  }
  throw Unreadable(trace.file +
                   ": it has no op of a GPU. Record some: with ProfilerActivity.CUDA in "
                   "torch.profiler.profile(activities=...), or "
                   "nsys profile --trace=cuda,nvtx, or leat-overlap --trace");
}

std::optional<Straggler> straggler(const std::vector<TraceReport>& traces) {
  std::optional<Straggler> found;
  double most = -1;
  double sum = 0;
  double comm = 0;      // of all
  double own_comm = 0;  // of the one found
  std::size_t ranks = 0;
  for (std::size_t t = 0; t < traces.size(); ++t) {
    for (std::size_t d = 0; d < traces[t].devices.size(); ++d) {
      const DeviceReport& device = traces[t].devices[d];
      const double own = static_cast<double>(device.mean.length - device.mean[Part::kComm]) /
                         static_cast<double>(device.steps_in_mean);
      ++ranks;
      sum += own;
      const double of_step =
          static_cast<double>(device.mean[Part::kComm]) / static_cast<double>(device.steps_in_mean);
      comm += of_step;
      if (own <= most) continue;
      most = own;
      own_comm = of_step;
      found = Straggler{.trace = t, .device = d};
    }
  }
  if (ranks < 2) return std::nullopt;
  // They wait within communication, and no longer than it takes.
  const auto others = static_cast<double>(ranks - 1);
  found->others_wait = static_cast<Time>(
      std::llround(std::min(most - (sum - most) / others, (comm - own_comm) / others)));
  if (found->others_wait <= 0) return std::nullopt;
  return found;
}

}  // namespace overlap::trace
