#include "leat/pipeline/schedule/report.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "leat/pipeline/text.h"

namespace schedule_program {
namespace {

using namespace leat::pipeline;

// The lines of a critical path that people are shown.
constexpr std::size_t kShownSteps = 24;

Json known(const std::optional<int>& value) { return value.has_value() ? Json(*value) : Json(); }

std::string words(const std::optional<int>& capacity) {
  return capacity.has_value() ? std::to_string(*capacity) : "none";
}

std::string words(const StuckTransfer& one) {
  return "stuck at " + to_string(one.action) + ", which waits for rank " + std::to_string(one.peer);
}

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * share);
  return text.data();
}

Json to_json(const Finding& one) {
  return {{"row", one.row < 0 ? Json() : Json(one.row)},
          {"column", one.column < 0 ? Json() : Json(one.column)},
          {"reason", one.reason}};
}

Json to_json(const Stop& stop) {
  Json stuck = Json::array();
  for (const StuckTransfer& one : stop.stuck) {
    stuck.push_back({{"row", one.row},
                     {"column", one.column},
                     {"action", to_string(one.action)},
                     {"peer", one.peer}});
  }
  return {{"stuck", std::move(stuck)}, {"cycle", stop.cycle}};
}

Table ranks_of(const Simulation& simulation) {
  Table table{
      .columns = {"rank", "busy", "fill", "wait", "drain", "peak_activations", "peak_bytes"},
      .rows = {}};
  for (const RankTimes& one : simulation.ranks) {
    table.rows.push_back({table.rows.size(), one.busy, one.fill, one.wait, one.drain,
                          one.peak_activations, one.peak_bytes});
  }
  return table;
}

// One line for each stretch on a rank.
std::string critical_path(const std::vector<CriticalStep>& path) {
  std::string text = "critical path:\n";
  std::size_t lines = 0;
  for (std::size_t i = 0; i < path.size();) {
    const std::size_t row = path[i].row;
    std::string actions;
    const std::int64_t begin = path[i].span.begin;
    std::int64_t end = begin;
    for (; i < path.size() && path[i].row == row; ++i) {
      actions += ' ' + to_string(path[i].span.action);
      end = path[i].span.end;
    }
    if (++lines > kShownSteps) continue;
    text += "  " + std::to_string(begin) + " to " + std::to_string(end) + ", rank " +
            std::to_string(row) + ':' + actions + '\n';
  }
  if (lines > kShownSteps) {
    text += "  and " + std::to_string(lines - kShownSteps) + " more (all of it: --format json)\n";
  }
  return text;
}

}  // namespace

Json to_json(const Schedule& schedule) {
  Json rows = Json::array();
  for (const Row& row : schedule.rows) {
    Json& cells = rows.emplace_back(Json::array());
    for (const Cell& cell : row) cells.push_back(to_string(cell));
  }
  return {{"stages", schedule.stages},
          {"microbatches", schedule.microbatches},
          {"rows", std::move(rows)}};
}

std::string schedule_text(const Schedule& schedule, Format format) {
  if (format == Format::kGrid) return to_grid(schedule);
  return format == Format::kCsv ? to_csv(schedule) : to_line(to_json(schedule));
}

std::string check_text(const Schedule& schedule, const CheckResult& result, const std::string& name,
                       Format format) {
  const bool can_run = result.findings.empty();
  if (format == Format::kCsv) {
    Table table{.columns = {"row", "column", "reason"}, .rows = {}};
    for (const Finding& one : result.findings) {
      const Json json = to_json(one);
      table.rows.push_back({json["row"], json["column"], json["reason"]});
    }
    if (!result.stop.has_value()) return to_text(table, format);
    for (const StuckTransfer& one : result.stop->stuck) {
      table.rows.push_back({one.row, one.column, words(one)});
    }
    return to_text(table, format);
  }
  if (format == Format::kJson) {
    Json findings = Json::array();
    for (const Finding& one : result.findings) findings.push_back(to_json(one));
    Json all = {{"can_run", can_run},
                {"findings", std::move(findings)},
                {"stop", result.stop.has_value() ? to_json(*result.stop) : Json()},
                {"capacity_to_run", known(result.capacities.to_run)},
                {"capacity_for_full_speed", known(result.capacities.full_speed)}};
    if (can_run) all["peak_activations"] = peak_activations(schedule);
    return to_line(all);
  }
  if (!can_run) {
    // The report begins with the findings: here each has the name in front.
    std::string report = to_string(result.findings, name) +
                         result.report(schedule).substr(to_string(result.findings).size());
    if (!report.ends_with('\n')) report += '\n';
    return report;
  }
  std::string text = name + ": no fault\n" + "least capacity: to run " +
                     words(result.capacities.to_run) + ", for full speed " +
                     words(result.capacities.full_speed) + '\n' + "peak activations:";
  for (const std::int64_t peak : peak_activations(schedule)) text += ' ' + std::to_string(peak);
  return text + '\n';
}

std::string simulation_text(const Simulation& simulation, Format format) {
  const Table ranks = ranks_of(simulation);
  if (format == Format::kCsv) return to_text(ranks, format);
  if (format == Format::kGrid) {
    return "makespan " + std::to_string(simulation.makespan) + ", bubble " +
           percent(simulation.bubble) + '\n' + to_text(ranks, format) +
           critical_path(simulation.critical_path);
  }
  Json path = Json::array();
  for (const CriticalStep& one : simulation.critical_path) {
    path.push_back({{"rank", one.row},
                    {"action", to_string(one.span.action)},
                    {"begin", one.span.begin},
                    {"end", one.span.end}});
  }
  Json actions = Json::array();
  for (const std::vector<Span>& spans : simulation.spans) {
    Json& row = actions.emplace_back(Json::array());
    for (const Span& span : spans) {
      row.push_back(Json::array({to_string(span.action), span.begin, span.end}));
    }
  }
  return to_line({{"makespan", simulation.makespan},
                  {"bubble", simulation.bubble},
                  {"ranks", to_json(ranks)},
                  {"critical_path", std::move(path)},
                  {"actions", std::move(actions)}});
}

std::string search_text(const SearchResult& found, Format format) {
  if (format != Format::kJson) return schedule_text(found.schedule, format);
  Json all = {{"makespan", found.makespan}, {"bound", found.bound}, {"proved", found.is_proved()}};
  all.update(to_json(found.schedule));
  return to_line(all);
}

std::string search_note(const SearchResult& found) {
  const std::string makespan = "makespan " + std::to_string(found.makespan);
  if (found.is_proved()) return makespan + ", proved: no schedule is shorter\n";
  const double gap =
      static_cast<double>(found.makespan - found.bound) / static_cast<double>(found.bound);
  return makespan + ", bound " + std::to_string(found.bound) + ", gap " + percent(gap) + '\n';
}

}  // namespace schedule_program
