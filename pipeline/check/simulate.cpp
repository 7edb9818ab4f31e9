#include "leat/pipeline/simulate.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "leat/pipeline/check/timeline.h"

namespace leat::pipeline {
namespace {

void require(bool is_so, const std::string& what) {
  if (!is_so) throw std::invalid_argument("cost model: " + what);
}

/// Follows activations through a row: `change` is called with a stage and +1 or -1, in order.
template <class Change>
void follow_activations(const Row& row, Change&& change) {
  for (const Cell& cell : row) {
    for (const Action& action : cell) {
      if (action.op == Op::kForward) change(action.stage, +1);
      if (action.op == Op::kBackward || action.op == Op::kBackwardWeight) change(action.stage, -1);
    }
  }
}

/// The actions of a row that have begun, in time; a transfer that is not done ends with the last
/// instant that is known.
std::vector<Span> spans_of(const Timeline& timeline, const Schedule& schedule, std::size_t row,
                           const CostModel& model) {
  std::vector<Span> spans;
  const std::vector<std::int64_t>& starts = timeline.starts(row);
  for (std::size_t column = 0; column < starts.size(); ++column) {
    std::int64_t computed = starts[column];
    auto ref = timeline.refs(row, column).begin();
    for (const Action& action : schedule.rows[row][column]) {
      Span& span = spans.emplace_back(
          Span{.column = column, .action = action, .begin = starts[column], .end = starts[column]});
      if (transfers(action.op)) {
        const Timeline::Transfer& value = timeline.at(*ref++);
        const std::int64_t done = sends(action.op) ? value.send_done : value.recv_done;
        span.end = done == Timeline::kNever ? timeline.makespan() : done;
      } else if (computes(action.op)) {
        span.begin = computed;
        span.end = computed += ticks_of(action, model);
      }
    }
  }
  return spans;
}

RankTimes times_of(const std::vector<Span>& spans, std::int64_t makespan) {
  RankTimes times;
  std::int64_t last = -1;
  for (const Span& span : spans) {
    if (!computes(span.action.op)) continue;
    if (last < 0) times.fill = span.begin;
    times.busy += span.end - span.begin;
    last = span.end;
  }
  if (last < 0) {
    times.fill = makespan;
  } else {
    times.drain = makespan - last;
  }
  times.wait = makespan - times.busy - times.fill - times.drain;
  return times;
}

/// Goes back from the end, always to what the present waited for.
class CriticalPath {
 public:
  CriticalPath(const Timeline& timeline, const Simulation& simulation, std::optional<int> capacity)
      : timeline_(timeline), simulation_(simulation), capacity_(capacity) {}

  std::vector<CriticalStep> find(std::size_t rows) && {
    std::size_t row = 0;
    for (std::size_t other = 1; other < rows; ++other) {
      if (timeline_.end(other) > timeline_.end(row)) row = other;
    }
    // Of a row that has stopped, the cell in which it is has not ended.
    const std::size_t cells = timeline_.starts(row).size() - (timeline_.ended(row) ? 0 : 1);
    row_ = row;
    column_ = cells;
    while (column_ > 0) {
      --column_;
      go_through_cell(timeline_.end(row_, column_));
    }
    std::ranges::reverse(steps_);
    return std::move(steps_);
  }

 private:
  /// From the end of the current cell to the start of one, which becomes the current one.
  void go_through_cell(std::int64_t end) {
    const std::vector<Span>& spans = simulation_.spans[row_];
    const auto first = std::ranges::lower_bound(spans, column_, {}, &Span::column);
    auto last = std::ranges::upper_bound(spans, column_, {}, &Span::column);
    std::int64_t computed = timeline_.starts(row_)[column_];
    for (auto span = first; span != last; ++span) {
      if (computes(span->action.op)) computed = span->end;
    }
    if (computed == end) {
      while (last != first) {
        --last;
        if (last->end > last->begin && computes(last->action.op)) steps_.push_back({row_, *last});
      }
      return;
    }
    for (const Timeline::TransferRef& ref : timeline_.refs(row_, column_)) {
      const Timeline::Transfer& value = timeline_.at(ref);
      if ((ref.sends ? value.send_done : value.recv_done) == end) {
        go_through_transfer(ref.channel, ref.index, ref.sends);
        return;
      }
    }
  }

  void go_through_transfer(std::int32_t channel, std::int32_t index, bool sends) {
    while (true) {
      const Timeline::Transfer& value = timeline_.at(channel, index);
      const Timeline::Endpoint& own = sends ? value.send : value.recv;
      const Timeline::Endpoint& other = sends ? value.recv : value.send;
      const std::int64_t own_start = sends ? value.send_start : value.recv_start;
      const std::int64_t done = sends ? value.send_done : value.recv_done;
      if (capacity_ == 0) {  // both sides meet
        const std::int64_t met = std::max(value.send_start, value.recv_start);
        under_way(own, met, done);
        go_to(met == own_start ? own : other);
        return;
      }
      if (done == own_start) {
        go_to(own);
        return;
      }
      if (sends) {  // it waited for a place
        index -= *capacity_;
      } else {  // for the value
        under_way(own, value.send_done, done);
      }
      sends = !sends;
    }
  }

  void go_to(const Timeline::Endpoint& end) {
    row_ = end.row;
    column_ = end.column;
  }

  void under_way(const Timeline::Endpoint& end, std::int64_t from, std::int64_t to) {
    if (from == to) return;
    steps_.push_back(
        {end.row, {.column = end.column, .action = end.action, .begin = from, .end = to}});
  }

  const Timeline& timeline_;
  const Simulation& simulation_;
  std::optional<int> capacity_;
  std::size_t row_ = 0;
  std::size_t column_ = 0;
  std::vector<CriticalStep> steps_;
};

}  // namespace

void CostModel::check(const Schedule& schedule) const {
  require(stages.size() == 1 || stages.size() == static_cast<std::size_t>(schedule.stages),
          "it has " + std::to_string(stages.size()) + " stages, and the schedule " +
              std::to_string(schedule.stages));
  require(link >= 0, "the link delay is negative");
  require(!capacity || *capacity >= 0, "the capacity is negative");
  // The sum of all that could follow one another, whatever the order; doubles do not wrap around.
  double ticks = 0;
  double bytes = 0;
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage) {
    const StageCost& cost = of(stage);
    require(cost.forward >= 0 && cost.backward_input >= 0 && cost.backward_weight >= 0 &&
                cost.activation_bytes >= 0,
            "a value of stage " + std::to_string(stage) + " is negative");
    ticks += static_cast<double>(cost.forward) + static_cast<double>(cost.backward_input) +
             static_cast<double>(cost.backward_weight) + 4 * static_cast<double>(link);
    bytes += static_cast<double>(cost.activation_bytes);
  }
  require(std::max(ticks, bytes) * std::max(schedule.microbatches, 1) < 0x1p62,
          "its times or bytes do not fit in 62 bits");
}

std::vector<std::int64_t> peak_activations(const Schedule& schedule) {
  std::vector<std::int64_t> peaks;
  for (const Row& row : schedule.rows) {
    std::int64_t live = 0;
    std::int64_t& peak = peaks.emplace_back(0);
    follow_activations(row,
                       [&](std::int32_t, int change) { peak = std::max(peak, live += change); });
  }
  return peaks;
}

Simulation simulate(const Schedule& schedule, const CostModel& model) {
  model.check(schedule);
  const Schedule lowered = lower(schedule);
  Timeline timeline(lowered, model);
  Simulation found;
  if (!timeline.run(model.capacity)) found.stop = timeline.stop();
  found.makespan = timeline.makespan();
  std::int64_t busy = 0;
  for (std::size_t row = 0; row < lowered.rows.size(); ++row) {
    found.spans.push_back(spans_of(timeline, lowered, row, model));
    RankTimes& times = found.ranks.emplace_back(times_of(found.spans.back(), found.makespan));
    busy += times.busy;
    std::int64_t live = 0;
    std::int64_t bytes = 0;
    follow_activations(lowered.rows[row], [&](std::int32_t stage, int change) {
      times.peak_activations = std::max(times.peak_activations, live += change);
      bytes += change * model.of(stage).activation_bytes;
      times.peak_bytes = std::max(times.peak_bytes, bytes);
    });
  }
  if (found.makespan > 0) {
    found.bubble = 1 - static_cast<double>(busy) / static_cast<double>(found.makespan) /
                           static_cast<double>(lowered.rows.size());
  }
  found.critical_path = CriticalPath(timeline, found, model.capacity).find(lowered.rows.size());
  return found;
}

std::optional<std::int64_t> makespan(const Schedule& schedule, const CostModel& model) {
  model.check(schedule);
  const Schedule lowered = lower(schedule);
  Timeline timeline(lowered, model);
  if (!timeline.run(model.capacity)) return std::nullopt;
  return timeline.makespan();
}

}  // namespace leat::pipeline
