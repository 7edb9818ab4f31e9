#include "leat/overlap/trace/figures/steps.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>

namespace overlap::trace {
namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

std::optional<std::int64_t> number_at(std::string_view text, std::size_t at) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

// The last number of a name: 12 of "ProfilerStep#12".
std::optional<std::int64_t> number_in(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0 && !is_digit(name[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  return begin == end ? std::nullopt : number_at(name, begin);
}

// "epoch 3 step 12" becomes "epoch # step "; "": no word for a step is before a number.
std::string counted(std::string_view name) {
  const std::string_view text = name.substr(0, 256);
  for (std::size_t digits = 0; digits < text.size(); ++digits) {
    if (!is_digit(text[digits]) || (digits > 0 && is_digit(text[digits - 1]))) continue;
    std::size_t word_end = digits;
    while (word_end > 0 &&
           std::string_view(" _#:=-.[(").find(text[word_end - 1]) != std::string_view::npos)
      --word_end;
    std::string word;
    for (std::size_t at = word_end; at > 0; --at) {
      const char c = text[at - 1];
      if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) break;
      word.insert(word.begin(), static_cast<char>(c | 0x20));
    }
    for (const std::string_view of : {"step", "iteration", "iter", "batch"}) {
      if (!word.ends_with(of)) continue;
      std::string before;
      for (const char c : text.substr(0, digits)) {
        if (!is_digit(c)) before += c;
        if (is_digit(c) && !before.ends_with('#')) before += '#';
      }
      return before;
    }
  }
  return {};
}

struct Candidates {
  std::vector<Range> ranges;
  std::string found_by;
};

// The ranges that are steps, of threads that launched the device's ops; else, of their processes.
Candidates candidates(const Trace& trace, const Device& device, const Rules& rules) {
  std::set<std::uint64_t> processes;
  std::set<std::uint32_t> threads;
  for (const Op& op : device.ops) {
    if (op.call == kNone) continue;
    threads.insert(trace.calls[op.call].thread);
    processes.insert(trace.threads[trace.calls[op.call].thread].process);
  }
  const auto is_own = [&](const Range& range) {
    return processes.empty() || processes.contains(trace.threads[range.thread].process);
  };
  const auto those = [&](auto is_step) {
    std::vector<Range> found;
    std::vector<signed char> known(trace.names.size(), -1);
    for (const Range& range : trace.ranges) {
      if (!is_own(range)) continue;
      if (known[range.name] < 0)
        known[range.name] = is_step(std::string_view(trace.names[range.name])) ? 1 : 0;
      if (known[range.name] == 1) found.push_back(range);
    }
    // A process may feed several devices, each by a thread with steps of its own.
    const auto launches = [&](const Range& range) { return threads.contains(range.thread); };
    if (std::ranges::any_of(found, launches)) std::erase_if(found, std::not_fn(launches));
    const auto begin_together = [](const Range& a, const Range& b) { return a.begin == b.begin; };
    found.erase(std::unique(found.begin(), found.end(), begin_together), found.end());
    return found;
  };
  if (rules.step) {
    std::vector<Range> named =
        those([&](std::string_view name) { return finds(*rules.step, name); });
    if (!named.empty()) return {std::move(named), "ranges that --step names"};
    throw std::invalid_argument(
        "--step: no range of device " + std::to_string(device.number) + " has such a name" +
        (trace.ranges.empty() ? "; the trace has none"
                              : "; the first one is \"" + trace.names[trace.ranges[0].name] + '"'));
  }
  constexpr std::string_view kProfiler = "ProfilerStep#";
  std::vector<Range> found = those([&](std::string_view name) {
    return name.starts_with(kProfiler) && name.size() > kProfiler.size() &&
           is_digit(name[kProfiler.size()]);
  });
  if (!found.empty()) return {std::move(found), "ranges ProfilerStep#N"};
  // Of NVTX names that are numbered alike, those of which there are most. (The profiler's own
  // annotations say "step" of much else.)
  if (trace.format != "Nsight Systems") return {};
  // Those of threads that launch come first: a loader's thread counts its batches, too.
  std::string best;
  for (const bool launching : {true, false}) {
    std::map<std::string, std::set<std::uint32_t>> alike;
    for (const Range& range : trace.ranges) {
      if (!is_own(range) || (launching && !threads.contains(range.thread))) continue;
      const std::string of = counted(trace.names[range.name]);
      if (!of.empty()) alike[of].insert(range.name);
    }
    for (const auto& [of, names] : alike) {
      if (names.size() >= 3 && (best.empty() || names.size() > alike[best].size())) best = of;
    }
    if (!best.empty()) break;
  }
  if (best.empty()) return {};
  return {those([&](std::string_view name) { return counted(name) == best; }),
          "ranges \"" + best + "N\""};
}

// Steps by ranges of the host.
void by_ranges(const Trace& trace, const Device& device, const std::vector<Range>& ranges,
               const StepOptions& options, Steps& steps) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::string& name = trace.names[ranges[i].name];
    const Time end = i + 1 < ranges.size() ? ranges[i + 1].begin : ranges[i].end;
    steps.all.push_back(
        {.name = name, .number = number_in(name), .host = {ranges[i].begin, end}, .device = {}});
  }
  // By step: the first kernel that was launched in it, and the last end.
  constexpr Time kNever = std::numeric_limits<Time>::max();
  std::vector<Time> first(ranges.size(), kNever);
  std::vector<Time> last(ranges.size(), 0);
  for (const Op& op : device.ops) {
    if (op.call == kNone) continue;
    const Time launched = trace.calls[op.call].begin;
    const auto behind = std::ranges::upper_bound(steps.all, launched, {},
                                                 [](const Step& step) { return step.host.begin; });
    if (behind == steps.all.begin() || launched >= (behind - 1)->host.end) continue;
    const auto i = static_cast<std::size_t>(behind - 1 - steps.all.begin());
    if (op.kind == Kind::kCompute) first[i] = std::min(first[i], op.begin);
    last[i] = std::max(last[i], op.end);
  }
  std::vector<std::size_t> with;  // kernels
  bool is_in_order = true;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] == kNever) continue;
    is_in_order = is_in_order && (with.empty() || first[i] > first[with.back()]);
    with.push_back(i);
  }
  steps.is_by_host = options.by_host || with.empty() || !is_in_order;
  if (steps.is_by_host) {
    steps.found_by += options.by_host ? ", by the host's clock"
                      : with.empty()
                          ? ", by the host's clock: no kernel is known to be launched in one"
                          : ", by the host's clock: on the device they are out of order";
    for (Step& step : steps.all) step.device = step.host;
    return;
  }
  Time lead = 0;
  for (std::size_t k = 0; k < with.size(); ++k) {
    Step& step = steps.all[with[k]];
    step.device = {first[with[k]], k + 1 < with.size() ? first[with[k + 1]] : last[with[k]]};
    add_within(lead, step.device.begin - step.host.begin);
  }
  steps.lead = lead / static_cast<Time>(with.size());
  for (std::size_t i = 0; i < first.size(); ++i) steps.all[i].is_empty = first[i] == kNever;
}

void by_period(const Trace& trace, const Device& device, Steps& steps) {
  std::vector<std::size_t> kernels(device.streams.size());
  for (const Op& op : device.ops) kernels[op.stream] += op.kind == Kind::kCompute ? 1 : 0;
  const auto stream =
      static_cast<std::uint32_t>(std::ranges::max_element(kernels) - kernels.begin());
  std::vector<const Op*> on;
  std::vector<std::uint32_t> names;
  for (const Op& op : device.ops) {
    if (op.kind != Kind::kCompute || op.stream != stream) continue;
    on.push_back(&op);
    names.push_back(op.name);
  }
  const std::size_t lag = period_of(names);
  if (lag == 0) return;
  steps.found_by = "a period of " + std::to_string(lag) + " kernels on stream " +
                   device.streams[stream] +
                   " (it may be that of a layer; --step names the steps' ranges)";
  const auto called = [&](const Op& op) {
    return op.call == kNone ? op.begin : trace.calls[op.call].begin;
  };
  for (std::size_t k = 0; (k + 1) * lag <= on.size(); ++k) {
    const auto begin = on.begin() + static_cast<std::ptrdiff_t>(k * lag);
    Time end = (k + 1) * lag < on.size() ? on[(k + 1) * lag]->begin : 0;
    if ((k + 2) * lag > on.size()) {  // the last full one
      end = 0;
      for (std::size_t i = 0; i < lag; ++i)
        end = std::max(end, begin[static_cast<std::ptrdiff_t>(i)]->end);
    }
    const std::string number = std::to_string(k);
    steps.all.push_back({.name = "period " + number,
                         .number = static_cast<std::int64_t>(k),
                         .host = {called(**begin), called(**begin)},
                         .device = {(*begin)->begin, end}});
  }
}

}  // namespace

std::size_t period_of(const std::vector<std::uint32_t>& values) {
  constexpr std::size_t kBlock = 4096;
  const std::size_t count = values.size();
  std::uint64_t left = std::uint64_t{1} << 33;
  std::size_t worst = 0;  // the block where most differed at the lag before: it is looked at first
  for (std::size_t lag = 1; 3 * lag <= count; ++lag) {
    const std::size_t pairs = count - lag;
    const std::size_t allowed = pairs / 100;
    const std::size_t blocks = (pairs + kBlock - 1) / kBlock;
    const std::size_t first = worst < blocks ? worst : 0;
    std::size_t differ = 0;
    unsigned most = 0;
    // In blocks, which the compiler makes vectors of.
    for (std::size_t k = 0; k < blocks && differ <= allowed; ++k) {
      const std::size_t block = first + k < blocks ? first + k : first + k - blocks;
      const std::size_t end = std::min((block + 1) * kBlock, pairs);
      unsigned here = 0;
      for (std::size_t i = block * kBlock; i < end; ++i)
        here += values[i] != values[i + lag] ? 1U : 0U;
      differ += here;
      left -= std::min<std::uint64_t>(left, kBlock);
      if (here > most) {
        most = here;
        worst = block;
      }
    }
    if (differ <= allowed) return lag;
    if (left == 0) return 0;
  }
  return 0;
}

Steps find_steps(const Trace& trace, const Device& device, const Rules& rules,
                 const StepOptions& options) {
  Steps steps;
  const Candidates ranges = candidates(trace, device, rules);
  if (!ranges.ranges.empty()) {
    steps.found_by = ranges.found_by;
    by_ranges(trace, device, ranges.ranges, options, steps);
  } else if (!rules.step) {
    by_period(trace, device, steps);
  }
  std::vector<Step*> there;
  for (Step& step : steps.all) {
    if (!step.is_empty) there.push_back(&step);
  }
  for (const Op& op : device.ops) {
    const auto behind = std::ranges::upper_bound(
        there, op.begin, {}, [](const Step* step) { return step->device.begin; });
    const bool is_in = behind != there.begin() && op.begin < (*(behind - 1))->device.end;
    ++(is_in ? (*(behind - 1))->ops : steps.ops_outside);
  }
  const std::size_t found = steps.all.size();
  if (options.only) {
    std::erase_if(steps.all, [&](const Step& step) {
      return !step.number || *step.number < options.only->first ||
             *step.number > options.only->second;
    });
    if (steps.all.empty()) {
      throw std::invalid_argument("--steps: none of the " + std::to_string(found) +
                                  " steps of device " + std::to_string(device.number) +
                                  " has such a number");
    }
  }
  for (Step& step : steps.all) {
    step.is_empty = step.is_empty || step.ops == 0;
    if (step.is_empty) continue;
    ++steps.measured;
    steps.time.add(step.device);
  }
  if (steps.measured > 0) return steps;
  steps.found_by = steps.all.empty()
                       ? "none found: the whole span counts as one"
                       : steps.found_by + ", all without ops: the whole span counts as one";
  steps.time = {};
  steps.time.add(device.all());
  steps.ops_outside = 0;
  return steps;
}

}  // namespace overlap::trace
