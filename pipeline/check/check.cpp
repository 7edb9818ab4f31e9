#include "leat/pipeline/check.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "leat/pipeline/check/structure.h"
#include "leat/pipeline/check/timeline.h"
#include "leat/pipeline/text.h"

namespace leat::pipeline {
namespace {

/// The least number from `low` on for which `holds`, which holds for all greater ones, too, and for
/// `most`. Few are tried that are much greater.
template <class Holds>
int least(int low, int most, Holds&& holds) {
  int step = 1;
  int high = low;
  while (high < most && !holds(high)) {
    low = high + 1;
    high = std::min(most, high + step);
    step *= 2;
  }
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

/// Why the capacity does not do, if it does not.
std::optional<std::string> refused(std::optional<int> capacity, const Capacities& needed,
                                   bool is_order) {
  if (!needed.to_run) return "it stops with any capacity";
  if (!capacity && is_order) return std::nullopt;
  const int given = capacity.value_or(0);
  if (given >= *needed.to_run) return std::nullopt;
  return "it stops at capacity " + std::to_string(given) + "; " + std::to_string(*needed.to_run) +
         " is the least that runs";
}

void check_limit(const Schedule& schedule, const std::vector<std::int64_t>& limits,
                 std::vector<Finding>& findings) {
  if (limits.empty()) return;
  if (limits.size() != 1 && limits.size() != schedule.rows.size()) {
    throw std::invalid_argument("check: there are " + std::to_string(limits.size()) +
                                " limits for " + std::to_string(schedule.rows.size()) + " ranks");
  }
  if (std::ranges::min(limits) < 1) {
    throw std::invalid_argument("check: the limit of activations is less than 1");
  }
  for (std::size_t row = 0; row < schedule.rows.size(); ++row) {
    const std::int64_t limit = limits.size() == 1 ? limits.front() : limits[row];
    std::int64_t live = 0;
    std::int64_t column = 0;
    for (const Cell& cell : schedule.rows[row]) {
      const std::int64_t before = live;
      std::int64_t most = live;
      for (const Action& action : cell) {
        if (action.op == Op::kForward) most = std::max(most, ++live);
        if (action.op == Op::kBackward || action.op == Op::kBackwardWeight) --live;
      }
      if (before <= limit && most > limit && findings.size() < kMostFindings) {
        findings.push_back({static_cast<std::int64_t>(row), column,
                            to_string(cell) + " is activation " + std::to_string(most) +
                                " that lives; the limit is " + std::to_string(limit)});
        break;
      }
      ++column;
    }
  }
}

/// The grid with the stuck cells marked; of one with many columns, what is around these cells.
std::string marked_grid(const Schedule& lowered, const Stop& stop) {
  constexpr std::size_t kMostColumns = 200;
  constexpr std::size_t kAround = 8;
  std::vector<std::pair<std::size_t, std::size_t>> marks;
  for (const StuckTransfer& one : stop.stuck) marks.emplace_back(one.row, one.column);
  const auto is_small = [](const Row& row) { return row.size() <= kMostColumns; };
  if (std::ranges::all_of(lowered.rows, is_small)) return to_grid(lowered, marks);
  Schedule part{.rows = {}, .stages = lowered.stages, .microbatches = lowered.microbatches};
  part.rows.resize(lowered.rows.size());
  for (auto& [row, column] : marks) {
    const Row& cells = lowered.rows[row];
    const std::size_t first = column < kAround ? 0 : column - kAround;
    const auto begin = cells.begin() + static_cast<std::ptrdiff_t>(first);
    const auto count = std::min(cells.size() - first, 2 * kAround + 1);
    part.rows[row].assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    column -= first;
  }
  return "around the stuck cells:\n" + to_grid(part, marks);
}

}  // namespace

std::optional<Stop> find_stop(const Schedule& lowered, std::optional<int> capacity) {
  Timeline timeline(lowered, {});
  if (timeline.run(capacity)) return std::nullopt;
  return timeline.stop();
}

Capacities capacities(const Schedule& lowered) {
  Timeline timeline(lowered, {});
  if (!timeline.run(std::nullopt)) return {};
  const std::int64_t shortest = timeline.makespan();
  Capacities found;
  found.to_run = least(0, lowered.microbatches, [&](int c) { return timeline.run(c); });
  found.full_speed = least(*found.to_run, lowered.microbatches, [&](int c) {
    return timeline.run(c) && timeline.makespan() == shortest;
  });
  return found;
}

CheckResult check(const Schedule& schedule, const CheckOptions& options) {
  if (options.capacity && *options.capacity < 0) {
    throw std::invalid_argument("check: the capacity is negative");
  }
  CheckResult result{.findings = faults_of(schedule), .stop = {}, .capacities = {}};
  if (!result.findings.empty()) return result;
  check_limit(schedule, options.limit, result.findings);
  const bool is_order = !is_lowered(schedule);
  const Schedule lowered = lower(schedule);
  result.capacities = capacities(lowered);
  if (const auto why = refused(options.capacity, result.capacities, is_order)) {
    result.findings.push_back({.row = -1, .column = -1, .reason = *why});
    const bool is_unbounded = is_order && !options.capacity;
    result.stop = find_stop(
        lowered, is_unbounded ? std::nullopt : std::optional(options.capacity.value_or(0)));
  }
  return result;
}

std::string CheckResult::report(const Schedule& schedule) const {
  std::string text = to_string(findings);
  if (!stop) return text;
  for (const StuckTransfer& one : stop->stuck) {
    text += "\nrank " + std::to_string(one.row) + " is stuck at " + to_string(one.action) +
            " (column " + std::to_string(one.column) + "), which waits for rank " +
            std::to_string(one.peer);
  }
  if (!stop->cycle.empty()) {
    text += "\ncycle: ";
    for (const std::size_t rank : stop->cycle) text += "rank " + std::to_string(rank) + " -> ";
    text += "rank " + std::to_string(stop->cycle.front());
  }
  return text + "\n" + marked_grid(lower(schedule), *stop);
}

}  // namespace leat::pipeline
