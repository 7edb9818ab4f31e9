#include "leat/feeder/trace/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "leat/feeder/stats/figures.h"

namespace leat::feeder {
namespace {

constexpr std::size_t kLabels = 10;  // columns before a lane
constexpr std::size_t kLeastTimelineColumns = 40;

// The part of the time that is drawn.
struct Window {
  Duration begin;
  Duration end;
  double column;        // nanoseconds
  std::size_t columns;  // of a lane

  [[nodiscard]] std::size_t column_of(Duration at) const {
    return static_cast<std::size_t>(
        std::lround(static_cast<double>((at - begin).count()) / column));
  }
};

std::string labelled(const char* label, const std::string& drawn) {
  const std::string line = std::string("  ") + label + drawn;
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

// The spans within the window. `first` is the step whose number is 1. Ends are rounded alike, so
// that spans that follow each other leave no gap; what is shorter than a column is drawn as one.
std::string timeline_lane(const std::vector<TimedStep>& steps, std::size_t first,
                          DeviceSpan TimedStep::*which, const Window& window) {
  const bool unicode = is_utf8();
  const std::array<const char*, 2> marks = {unicode ? "▓" : "=", unicode ? "█" : "#"};
  std::vector<std::string> cells(window.columns, " ");
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const DeviceSpan& span = steps[k].*which;
    const Duration begin = std::max(span.begin, window.begin);
    const Duration end = std::min(span.end, window.end);
    if (begin >= end) continue;
    const std::size_t from = std::min(window.column_of(begin), window.columns - 1);
    const std::size_t to = std::min(std::max(window.column_of(end), from + 1), window.columns);
    const std::size_t number = k + 1 - std::min(first, k + 1);  // 0: of a batch before the first
    std::fill(cells.begin() + static_cast<std::ptrdiff_t>(from),
              cells.begin() + static_cast<std::ptrdiff_t>(to), marks[(k + 1 - first) % 2]);
    const std::string label = number == 0 ? "" : std::to_string(number);
    if (label.empty() || to - from < label.size() + 2) continue;
    std::size_t at = from + (to - from - label.size()) / 2;
    for (const char digit : label) cells[at++] = digit;
  }
  std::string lane;
  for (const std::string& cell : cells) lane += cell;
  return lane;
}

// Marks at round times: the least 1, 2 or 5 times a power of ten that leaves room for a label.
std::string timeline_axis(const Window& window) {
  constexpr double kRoom = 9;  // columns
  double tick = 1;
  while (tick * 10 < kRoom * window.column) tick *= 10;
  for (const double times : {2.0, 2.5, 2.0}) {  // 2, 5, 10
    if (tick < kRoom * window.column) tick *= times;
  }
  const double length = window.column * static_cast<double>(window.columns);
  const auto [unit, name] = length >= 1e9   ? std::pair(1e9, "s")
                            : length >= 1e6 ? std::pair(1e6, "ms")
                            : length >= 1e3 ? std::pair(1e3, "us")
                                            : std::pair(1.0, "ns");
  std::string axis;
  for (int i = 0; i * tick < length; ++i) {
    const double at = i * tick;
    std::array<char, 32> label{};
    std::snprintf(label.data(), label.size(), "|%g", at / unit);
    const std::string mark = label.data() + (at > 0 ? "" : " " + std::string(name));
    const auto column = static_cast<std::size_t>(std::lround(at / window.column));
    if (column + mark.size() > window.columns) break;
    axis.resize(column, ' ');
    axis += mark;
  }
  return axis;
}

}  // namespace

std::string timeline_text(std::vector<TimedStep> steps, const TimelineOptions& options) {
  if (options.steps == 0 || options.columns < kLeastTimelineColumns) {
    throw std::invalid_argument("leat: a timeline of " + std::to_string(options.steps) +
                                " steps in " + std::to_string(options.columns) +
                                " columns; it has at least 1 step, and at least 40 columns");
  }
  if (steps.size() <= options.steps) {
    return "  no timeline: for one of " + std::to_string(options.steps) + " steps, " +
           std::to_string(options.steps + 1) +
           " batches have to be recorded and used on a stream; these are " +
           std::to_string(steps.size()) + "\n";
  }
  std::ranges::sort(steps, {}, [](const TimedStep& step) { return step.use.end; });
  // As long as most: of all such stretches, the one whose length is the median.
  std::vector<std::pair<Duration, std::size_t>> stretches;
  for (std::size_t k = 1; k + options.steps <= steps.size(); ++k) {
    stretches.emplace_back(steps[k + options.steps - 1].use.end - steps[k - 1].use.end, k);
  }
  const auto middle = stretches.begin() + static_cast<std::ptrdiff_t>(stretches.size() / 2);
  std::ranges::nth_element(stretches, middle);
  const auto [length, first] = *middle;
  const Duration shown = options.length > Duration::zero() ? options.length : length;
  if (shown <= Duration::zero()) return "  no timeline: the steps take no time\n";
  const Duration begin = steps[first - 1].use.end;
  const std::size_t columns = options.columns - kLabels;
  const Window window{.begin = begin,
                      .end = begin + std::min(length, shown),
                      .column = static_cast<double>(shown.count()) / static_cast<double>(columns),
                      .columns = columns};
  return labelled("copy    ", timeline_lane(steps, first, &TimedStep::copy, window)) +
         labelled("compute ", timeline_lane(steps, first, &TimedStep::use, window)) +
         labelled("time    ", timeline_axis(window));
}

}  // namespace leat::feeder
