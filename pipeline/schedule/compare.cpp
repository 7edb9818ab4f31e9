#include "leat/pipeline/schedule/compare.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/pipeline/schedule.h"

namespace schedule_program {
namespace {

using namespace leat::pipeline;

bool has_choice(Kind kind) {
  return kind == Kind::kInterleaved1F1B || kind == Kind::kLoopedBfs || kind == Kind::kZeroBubble;
}

// The makespan with stages that take 1/v of the times. Computed in ticks of 1/v.
std::optional<double> time_of_same_model(const Schedule& lowered, const CostModel& model,
                                         std::int64_t v) {
  CostModel finer = model;
  if (finer.link > std::numeric_limits<std::int64_t>::max() / v) {
    throw std::invalid_argument("the link's ticks are out of range");
  }
  finer.link *= v;
  const std::optional<std::int64_t> ticks = makespan(lowered, finer);
  if (!ticks.has_value()) return std::nullopt;
  return static_cast<double>(*ticks) / static_cast<double>(v);
}

void measure(Compared& one, const Schedule& order, const CostModel& model,
             const std::vector<std::int64_t>& limit) {
  const Schedule lowered = lower(order);
  const Simulation simulation = simulate(lowered, model);
  const std::vector<std::int64_t> peaks = peak_activations(order);
  one.peak_activations = *std::ranges::max_element(peaks);
  for (const RankTimes& rank : simulation.ranks) {
    one.peak_bytes = std::max(one.peak_bytes, rank.peak_bytes);
  }
  one.capacities = capacities(lowered);
  for (std::size_t r = 0; r < peaks.size() && !limit.empty(); ++r) {
    const std::int64_t most = limit[limit.size() == 1 ? 0 : r];
    if (peaks[r] <= most) continue;
    one.why_not = "rank " + std::to_string(r) + " has " + std::to_string(peaks[r]) +
                  " activations, of at most " + std::to_string(most);
    break;
  }
  if (simulation.stop.has_value()) {
    one.why_not = "it stops with capacity " + std::to_string(*model.capacity);
    return;
  }
  one.makespan = simulation.makespan;
  one.bubble = simulation.bubble;
  one.time = one.stages_per_rank == 1 || model.stages.size() > 1
                 ? static_cast<double>(simulation.makespan)
                 : time_of_same_model(lowered, model, one.stages_per_rank);
}

}  // namespace

std::vector<Compared> compare(const ScheduleShape& shape, const CostModel& model,
                              const std::vector<std::int64_t>& limit) {
  if (limit.size() > 1 && limit.size() != static_cast<std::size_t>(shape.ranks)) {
    throw std::invalid_argument("there are " + std::to_string(limit.size()) + " limits and " +
                                std::to_string(shape.ranks) + " ranks");
  }
  std::vector<Compared> all;
  for (const Kind kind : kinds()) {
    Compared& one = all.emplace_back();
    one.kind = kind;
    ScheduleShape its = shape;
    if (!has_choice(kind)) its.stages_per_rank = 0;
    std::optional<Schedule> order;
    try {
      order = make(kind, its);
    } catch (const std::invalid_argument& error) {
      one.why_not = error.what();
      continue;
    }
    one.stages_per_rank = order->stages / shape.ranks;
    if (model.stages.size() > 1 && model.stages.size() != static_cast<std::size_t>(order->stages)) {
      one.why_not = "it has " + std::to_string(order->stages) + " stages, and the model " +
                    std::to_string(model.stages.size());
      continue;
    }
    measure(one, *order, model, limit);
  }
  return all;
}

std::vector<Compared> recommended(std::vector<Compared> kinds) {
  std::erase_if(kinds, [](const Compared& one) { return !one.why_not.empty(); });
  std::ranges::stable_sort(kinds, [](const Compared& a, const Compared& b) {
    return std::pair(*a.time, a.peak_bytes / a.stages_per_rank) <
           std::pair(*b.time, b.peak_bytes / b.stages_per_rank);
  });
  return kinds;
}

Table table_of(const std::vector<Compared>& kinds) {
  const auto known = [](const auto& value) { return value.has_value() ? Json(*value) : Json(); };
  Table table{
      .columns = {"kind", "stages_per_rank", "time", "makespan", "bubble", "peak_activations",
                  "peak_bytes", "capacity_to_run", "capacity_for_full_speed", "note"},
      .rows = {}};
  for (const Compared& one : kinds) {
    const auto measured = [&](const Json& value) {
      return one.peak_activations > 0 ? value : Json();
    };
    table.rows.push_back(
        {std::string(name(one.kind)), one.stages_per_rank > 0 ? Json(one.stages_per_rank) : Json(),
         known(one.time), known(one.makespan), one.makespan.has_value() ? Json(one.bubble) : Json(),
         measured(one.peak_activations), measured(one.peak_bytes), known(one.capacities.to_run),
         known(one.capacities.full_speed), one.why_not});
  }
  return table;
}

}  // namespace schedule_program
