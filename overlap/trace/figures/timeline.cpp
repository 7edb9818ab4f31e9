#include "leat/overlap/trace/figures/timeline.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace overlap::trace {
namespace {

constexpr std::size_t kMostStreams = 16;

Time column_of(const Span& window, Time columns) {
  return std::max<Time>((window.end - window.begin) / columns, 1);
}

// The streams with most time, each in a lane; the others in one together.
std::vector<Lane> lanes_of(const Device& device, const Span& window) {
  std::vector<std::vector<Segment>> by_stream(device.streams.size());
  std::vector<Time> time(device.streams.size());
  for (const Op& op : device.ops) {
    if (op.begin >= window.end) break;
    const Span at{std::max(op.begin, window.begin), std::min(op.end, window.end)};
    if (at.end <= window.begin || (at.end == at.begin && op.begin < window.begin)) continue;
    const Time length = at.end - at.begin;
    add_within(time[op.stream], length);
    by_stream[op.stream].push_back({.begin = at.begin,
                                    .end = at.end,
                                    .busy = length,
                                    .longest = length,
                                    .name = op.name,
                                    .what = static_cast<std::uint8_t>(op.kind)});
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < by_stream.size(); ++i) {
    if (!by_stream[i].empty()) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return time[i]; });
  std::vector<Lane> lanes;
  Lane others;
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::vector<Segment>& of = by_stream[order[i]];
    if (i < kMostStreams || order.size() == kMostStreams + 1) {
      lanes.push_back({"stream " + device.streams[order[i]], false, std::move(of)});
    } else {
      others.segments.insert(others.segments.end(), of.begin(), of.end());
    }
  }
  if (others.segments.empty()) return lanes;
  std::ranges::stable_sort(others.segments, {}, &Segment::begin);
  others.name = std::to_string(order.size() - kMostStreams) + " other streams";
  lanes.push_back(std::move(others));
  return lanes;
}

Lane idle_lane(const Idle& idle, const Span& window) {
  Lane lane{"idle", true, {}};
  for (std::size_t cause = 0; cause < kCauses; ++cause) {
    idle.of[cause].split(
        window,
        [&](const Span& at) {
          const Time length = at.end - at.begin;
          lane.segments.push_back({.begin = at.begin,
                                   .end = at.end,
                                   .busy = length,
                                   .longest = length,
                                   .what = static_cast<std::uint8_t>(kKinds + cause)});
        },
        [](const Span& /*busy*/) {});
  }
  std::ranges::sort(lane.segments, {}, &Segment::begin);
  return lane;
}

Timeline timeline(const Trace& trace, const Device& device, const Idle& idle, const Span& window) {
  Timeline made{.which = {}, .step = {}, .window = window, .names = {}, .lanes = {}};
  made.lanes = lanes_of(device, window);
  made.lanes.push_back(idle_lane(idle, window));
  std::unordered_map<std::uint32_t, std::uint32_t> numbers;
  for (Lane& lane : made.lanes) {
    lane.segments = merged(lane.segments, column_of(window, kColumns));
    for (Segment& segment : lane.segments) {
      if (lane.is_idle) continue;
      const auto [at, is_new] =
          numbers.emplace(segment.name, static_cast<std::uint32_t>(made.names.size()));
      if (is_new) made.names.push_back(trace.names[segment.name]);
      segment.name = at->second;
    }
  }
  return made;
}

}  // namespace

std::vector<Segment> merged(const std::vector<Segment>& segments, Time column) {
  std::vector<Segment> found;
  std::array<Time, kKinds + kCauses> times{};  // of the last one found
  bool is_open = false;                        // the last one found is short: more may join it
  for (Segment next : segments) {
    if (!found.empty() && next.begin < found.back().end) {
      next.begin = found.back().end;
      if (next.end <= next.begin) {
        found.back().count += next.count;
        continue;
      }
      next.busy = std::min(next.busy, next.end - next.begin);
    }
    const bool is_short = next.end - next.begin < 2 * column;
    if (!is_open || !is_short || next.begin >= found.back().begin + column) {
      times = {};
      times[next.what] = next.busy;
      is_open = is_short;
      found.push_back(next);
      continue;
    }
    Segment& to = found.back();
    add_within(times[next.what], next.busy);
    if (times[next.what] > times[to.what]) to.what = next.what;
    if (next.longest > to.longest) {
      to.longest = next.longest;
      to.name = next.name;
    }
    to.end = next.end;
    add_within(to.busy, next.busy);
    to.count += next.count;
  }
  return found;
}

std::vector<Timeline> timelines(const Trace& trace, const Device& device, const Idle& idle,
                                const Steps& steps) {
  std::vector<const Step*> by_length;
  for (const Step& step : steps.all) {
    if (!step.is_empty) by_length.push_back(&step);
  }
  std::ranges::stable_sort(by_length, {},
                           [](const Step* step) { return step->device.end - step->device.begin; });
  std::vector<Timeline> made;
  const auto add = [&](const char* which, const std::string& name, const Span& window) {
    made.push_back(timeline(trace, device, idle, window));
    made.back().which = which;
    made.back().step = name;
  };
  if (by_length.empty()) {
    add("whole", "", steps.time.spans().empty() ? Span{} : steps.time.spans()[0]);
    return made;
  }
  const Step* const median = by_length[by_length.size() / 2];
  add("median", median->name, median->device);
  if (by_length.back() != median) add("worst", by_length.back()->name, by_length.back()->device);
  return made;
}

}  // namespace overlap::trace
