#include "leat/overlap/trace/figures/loop.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "leat/overlap/trace/figures/analysis.h"

namespace overlap::trace {
namespace {

std::string name_of(const Batch& batch) {
  return "epoch " + std::to_string(batch.epoch) + ", batch " + std::to_string(batch.number);
}

std::optional<std::int64_t> rank_of(const Loop& loop) {
  long long rank = 0;
  if (std::sscanf(loop.name.c_str(), "rank %lld:", &rank) != 1) return std::nullopt;
  return rank;
}

Device ops_of(const Loop& loop, std::int64_t number, Names& names) {
  Device device{.number = number, .name = loop.name, .streams = {"uses", "copies"}, .ops = {}};
  const std::uint32_t use = names.add("use");
  const std::uint32_t copy = names.add("copy");
  for (const Batch& batch : loop.batches) {
    device.ops.push_back({.begin = batch.use->begin,
                          .end = batch.use->end,
                          .name = use,
                          .stream = 0,
                          .kind = Kind::kCompute});
    if (!batch.copy) continue;
    device.ops.push_back({.begin = batch.copy->begin,
                          .end = batch.copy->end,
                          .name = copy,
                          .stream = 1,
                          .kind = Kind::kH2d});
  }
  std::ranges::stable_sort(device.ops, {}, &Op::begin);
  return device;
}

Idle idle_of(const Loop& loop, const Device& device) {
  std::vector<Span> by_begin = loop.waits;
  std::ranges::sort(by_begin, {}, &Span::begin);
  Cover waits;
  for (const Span& wait : by_begin) waits.add(wait);
  Cover busy;
  for (const Op& op : device.ops) busy.add({op.begin, op.end});
  Idle idle;
  const auto to = [&](Cause cause) {
    return [&idle, cause](const Span& at) { idle.of[static_cast<std::size_t>(cause)].add(at); };
  };
  if (busy.empty()) return idle;
  // Waits are found by the rank's name.
  const Cause other = rank_of(loop) ? Cause::kHost : Cause::kUnknown;
  busy.split(
      {busy.spans().front().begin, busy.spans().back().end}, [](const Span& /*busy*/) {},
      [&](const Span& gap) { waits.split(gap, to(Cause::kData), to(other)); });
  return idle;
}

// By epoch, the numbers of the batches that the trace has, ascending.
using Recorded = std::map<std::int64_t, std::vector<std::int64_t>>;

// Whether batches were used between these two of which the trace has nothing: then the time between
// them is no step's.
bool has_hole(const Recorded& recorded, const Batch& before, const Batch& batch) {
  const std::int64_t last = before.epoch == batch.epoch ? before.number : -1;
  if (batch.number <= last) return false;  // delivered in another order
  const std::vector<std::int64_t>& numbers = recorded.at(batch.epoch);
  const auto there =
      std::ranges::lower_bound(numbers, batch.number) - std::ranges::upper_bound(numbers, last);
  return static_cast<std::uint64_t>(there) !=
         static_cast<std::uint64_t>(batch.number) - static_cast<std::uint64_t>(last) - 1;
}

}  // namespace

LoopDevice device_of(const Loop& loop, std::int64_t number) {
  LoopDevice made;
  made.trace.devices.push_back(ops_of(loop, rank_of(loop).value_or(number), made.trace.names));
  made.idle = idle_of(loop, made.trace.devices.front());
  return made;
}

bool share_out(const std::vector<Loop>& loops) {
  if (loops.size() < 2) return false;
  std::set<std::pair<std::int64_t, std::int64_t>> batches;
  for (const Loop& loop : loops) {
    for (const Batch& batch : loop.batches) {
      if (!batches.emplace(batch.epoch, batch.number).second) return false;
    }
  }
  return true;
}

Steps find_steps(const Loop& loop, const Device& device, const Rules& rules,
                 const StepOptions& options, bool shares_out) {
  Steps steps{.found_by = "batches, each from the end of the use before it to the end of its own",
              .all = {},
              .time = {},
              .lead = {}};
  Recorded recorded;
  for (const Batch& batch : loop.batches) recorded[batch.epoch].push_back(batch.number);
  for (auto& [epoch, numbers] : recorded) std::ranges::sort(numbers);
  std::size_t holes = 0;
  for (std::size_t i = 1; i < loop.batches.size(); ++i) {
    const Batch& batch = loop.batches[i];
    if (!shares_out && has_hole(recorded, loop.batches[i - 1], batch)) {
      ++holes;
      continue;
    }
    Step step{.name = name_of(batch),
              .number = batch.number,
              .host = {},
              .device = {loop.batches[i - 1].use->end, batch.use->end}};
    if (rules.step && !finds(*rules.step, step.name)) continue;
    if (options.only && (batch.number < options.only->first || batch.number > options.only->second))
      continue;
    steps.time.add(step.device);
    steps.all.push_back(std::move(step));
  }
  steps.measured = steps.all.size();
  if (holes > 0) {
    steps.found_by += "; " + std::to_string(holes) +
                      " are left out, because the trace lacks batches before theirs";
  }
  if (steps.measured == 0 && (rules.step || options.only)) {
    throw std::invalid_argument("--step, --steps: no batch of " + loop.name +
                                " has such a name and number; it has some such as \"" +
                                name_of(loop.batches.back()) + "\"");
  }
  for (const Op& op : device.ops) {
    const auto behind = std::ranges::upper_bound(
        steps.all, op.begin, {}, [](const Step& step) { return step.device.begin; });
    const bool is_in = behind != steps.all.begin() && op.begin < (behind - 1)->device.end;
    ++(is_in ? (behind - 1)->ops : steps.ops_outside);
  }
  if (steps.measured > 0) return steps;
  steps.ops_outside = 0;
  steps.found_by = "none found: the whole span counts as one";
  steps.time.add(device.all());
  return steps;
}

void add_loop(const Loop& loop, DeviceReport& report) {
  const Steps& steps = report.steps;
  if (steps.measured == 0 || report.mean.length <= 0) return;
  const auto count = static_cast<double>(steps.measured);
  const double t_step = static_cast<double>(report.mean.length) / count;
  // Of all batches, also of the first one, whose step is not known; else of those of the steps.
  const bool is_whole = steps.measured + 1 == loop.batches.size();
  double copies = 0;
  double uses = 0;
  std::uint64_t copied = 0;
  std::uint64_t used = 0;
  for (const Batch& batch : loop.batches) {
    if (!is_whole && !steps.time.has(batch.use->end - 1)) continue;
    ++used;
    uses += static_cast<double>(batch.use->end - batch.use->begin);
    if (!batch.copy) continue;
    ++copied;
    copies += static_cast<double>(batch.copy->end - batch.copy->begin);
  }
  LoopFigures of;
  of.t_c = used == 0 ? 0 : uses / static_cast<double>(used);
  of.t_x = copied == 0 ? 0 : copies / static_cast<double>(copied);
  // The first batch counts in the means and not in t_step, so a mean may be longer than that.
  of.most = std::min(std::max(of.t_c, of.t_x), t_step);
  const double least = std::min(of.t_c, of.t_x);
  of.hidden =  // 1: there is nothing to hide
      least == 0 ? 1 : std::clamp((of.t_c + of.t_x - t_step) / least, 0.0, 1.0);
  report.loop = of;
  // Uses follow each other, and so do copies: with two slots on the device, a copy runs beside the
  // use before it, and no step is shorter than one of either.
  const auto less = [&](Time saved) {
    const double step = std::max(t_step - static_cast<double>(saved) / count, of.most);
    return static_cast<Time>(std::llround(step * count));
  };
  const Time exposed = report.mean[Part::kExposedCopies];
  const Time data = report.mean[Cause::kData];
  report.what_if = {
      {"copies", "copies hidden (prefetch_depth 2 or more)", less(exposed)},
      {"data", "data never awaited", less(data)},
      {"all", "both", less(exposed + data)},
  };
}

}  // namespace overlap::trace
