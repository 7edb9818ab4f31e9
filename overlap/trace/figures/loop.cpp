#include "leat/overlap/trace/figures/loop.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "leat/overlap/trace/figures/analysis.h"

namespace overlap::trace {
namespace {

std::string name_of(const Batch& batch) {
  return "epoch " + std::to_string(batch.epoch) + ", batch " + std::to_string(batch.number);
}

Device ops_of(const Loop& loop, Names& names) {
  Device device{.number = 0, .name = loop.name, .streams = {"uses", "copies"}, .ops = {}};
  if (long long rank = 0; std::sscanf(loop.name.c_str(), "rank %lld:", &rank) == 1)
    device.number = rank;
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
  busy.split(
      {busy.spans().front().begin, busy.spans().back().end}, [](const Span& /*busy*/) {},
      [&](const Span& gap) { waits.split(gap, to(Cause::kData), to(Cause::kHost)); });
  return idle;
}

}  // namespace

LoopDevice device_of(const Loop& loop) {
  LoopDevice made;
  made.trace.devices.push_back(ops_of(loop, made.trace.names));
  made.idle = idle_of(loop, made.trace.devices.front());
  return made;
}

Steps find_steps(const Loop& loop, const Device& device, const Rules& rules,
                 const StepOptions& options) {
  Steps steps{.found_by = "batches, each from the end of the use before it to the end of its own",
              .all = {},
              .time = {},
              .lead = {}};
  for (std::size_t i = 1; i < loop.batches.size(); ++i) {
    const Batch& batch = loop.batches[i];
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
  steps.found_by = "none found: the whole span counts as one";
  steps.time.add(device.all());
  return steps;
}

void add_loop(const Loop& loop, DeviceReport& report) {
  const Steps& steps = report.steps;
  if (steps.measured == 0 || report.mean.length <= 0) return;
  const auto count = static_cast<double>(steps.measured);
  const double t_step = static_cast<double>(report.mean.length) / count;
  // Of all batches, the first one, too, whose step is not known; else of those of the steps.
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
  // With the first batch the means may be longer than a step.
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
