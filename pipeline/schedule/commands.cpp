#include "leat/pipeline/schedule/commands.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "leat/csp/clock.h"
#include "leat/csp/error.h"
#include "leat/pipeline/check.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/schedule/compare.h"
#include "leat/pipeline/schedule/figure.h"
#include "leat/pipeline/schedule/model.h"
#include "leat/pipeline/schedule/report.h"
#include "leat/pipeline/schedule/timeline.h"
#include "leat/pipeline/search.h"
#include "leat/pipeline/simulate.h"
#include "leat/pipeline/text.h"

namespace schedule_program {
namespace {

using namespace leat::pipeline;

// One schedule, what it is called, and what it costs.
struct Subject {
  Schedule schedule;
  std::string name;
  CostModel model;
};

std::string name_of(const Options& options) {
  if (options.file == "-") return "standard input";
  return options.kind.has_value() ? std::string(name(*options.kind)) : options.file;
}

// Whether the schedule has a fault that more places do not mend.
bool is_faulty(const CheckResult& checked) {
  return !checked.findings.empty() && !checked.stop.has_value();
}

CostModel model_of(const Options& options) {
  CostModel model;
  if (!options.model.empty()) model = parse_model(content_of(options.model), options.model);
  if (options.capacity.has_value()) model.capacity = options.capacity;
  return model;
}

Subject subject_of(const Options& options) {
  Subject subject{.schedule = {}, .name = name_of(options), .model = model_of(options)};
  subject.schedule = options.kind.has_value() ? make(*options.kind, options.shape)
                                              : parse(content_of(options.file),
                                                      options.shape.microbatches, subject.name);
  if (options.model.empty()) return subject;
  try {
    subject.model.check(subject.schedule);
  } catch (const std::invalid_argument& error) {
    throw leat::Error(options.model + ": " + error.what());
  }
  return subject;
}

// Whether it can be simulated: it has no other fault than a stop.
CheckResult check_for_simulation(const Subject& subject) {
  return check(subject.schedule,
               {.capacity = subject.model.capacity.value_or(std::numeric_limits<int>::max())});
}

void draw(const Options& options, const Subject& subject, const Simulation& simulation,
          Result& result) {
  if (options.wants_svg) {
    result.svg = figure_svg(subject.schedule, simulation, subject.name);
  }
  if (options.wants_trace) result.trace = timeline_json(simulation);
}

// Draws where a figure is wanted. A schedule with a fault is not drawn; one that stops, up to
// there.
void draw_if_wanted(const Options& options, const Subject& subject, Result& result) {
  if (!options.wants_svg && !options.wants_trace) return;
  const CheckResult checked = check_for_simulation(subject);
  if (checked.findings.empty() || checked.stop.has_value()) {
    draw(options, subject, simulate(subject.schedule, subject.model), result);
    return;
  }
  result.notes += "nothing is drawn of a schedule with faults:\n" +
                  check_text(subject.schedule, checked, subject.name, Format::kGrid);
  result.status = kFailed;
}

Result failed(const Options& options, const Subject& subject, const CheckResult& checked) {
  return {.text = check_text(subject.schedule, checked, subject.name, options.format),
          .status = kFailed};
}

Result run_print(const Options& options) {
  const Subject subject = subject_of(options);
  Result result{.text = schedule_text(subject.schedule, options.format)};
  draw_if_wanted(options, subject, result);
  return result;
}

Result run_check(const Options& options) {
  Subject subject = subject_of(options);
  const CheckResult checked =
      check(subject.schedule, {.capacity = subject.model.capacity, .limit = options.limit});
  Result result = failed(options, subject, checked);
  if (checked.findings.empty()) result.status = kDone;
  if (is_lowered(subject.schedule) && !subject.model.capacity.has_value()) {
    subject.model.capacity = 0;  // what was checked is drawn
  }
  draw_if_wanted(options, subject, result);
  return result;
}

Result run_lower(const Options& options) {
  Subject subject = subject_of(options);
  const CheckResult checked = check_for_simulation(subject);
  if (is_faulty(checked)) return failed(options, subject, checked);
  subject.schedule = lower(subject.schedule);
  Result result{.text = schedule_text(subject.schedule, options.format)};
  draw_if_wanted(options, subject, result);
  return result;
}

Result run_simulate(const Options& options) {
  const Subject subject = subject_of(options);
  const CheckResult checked = check_for_simulation(subject);
  Result result = failed(options, subject, checked);
  if (is_faulty(checked)) return result;
  const Simulation simulation = simulate(subject.schedule, subject.model);
  if (checked.findings.empty()) {
    result = {.text = simulation_text(simulation, options.format)};
  }
  draw(options, subject, simulation, result);
  return result;
}

// The placement of a file or a kind, `given`; else stage s is on rank s mod R.
SearchProblem problem_of(const Options& options, const std::optional<Subject>& given) {
  SearchProblem problem{.rank_of_stage = {},
                        .microbatches = options.shape.microbatches,
                        .limit = options.limit,
                        .split = !options.unsplit};
  if (given.has_value()) {
    problem.rank_of_stage = ranks_of_stages(given->schedule);
    problem.microbatches = given->schedule.microbatches;
    problem.model = given->model;
  } else {
    problem.model = model_of(options);
    const std::int64_t stages =
        std::int64_t{options.shape.ranks} * std::max(options.shape.stages_per_rank, 1);
    if (stages > kGreatestNumber) throw std::invalid_argument("there are too many stages");
    for (int s = 0; s < stages; ++s) problem.rank_of_stage.push_back(s % options.shape.ranks);
  }
  if (problem.model.capacity.has_value()) {
    throw leat::Error(options.model + ": \"capacity\": search takes channels without a limit");
  }
  if (problem.limit.empty()) {  // what is live at most
    problem.limit = {static_cast<std::int64_t>(problem.rank_of_stage.size()) *
                     problem.microbatches};
  }
  return problem;
}

Result run_search(const Options& options) {
  std::optional<Subject> given;
  if (!options.file.empty() || options.kind.has_value()) given = subject_of(options);
  if (given.has_value()) {
    const CheckResult checked = check_for_simulation(*given);
    Options told = options;
    if (told.format == Format::kCsv) told.format = Format::kGrid;  // search's default
    if (is_faulty(checked)) return failed(told, *given, checked);
  }
  const SearchProblem problem = problem_of(options, given);
  const auto time =
      std::chrono::duration_cast<leat::Duration>(std::chrono::duration<double>(options.seconds));
  const SearchResult found = search(problem, {.time = time});
  Result result{.text = search_text(found, options.format), .notes = search_note(found)};
  const Subject subject{
      .schedule = found.schedule, .name = "found: " + search_note(found), .model = problem.model};
  draw_if_wanted(options, subject, result);
  return result;
}

Result run_compare(const Options& options) {
  const CostModel model = model_of(options);
  return {.text = to_text(table_of(compare(options.shape, model)), options.format)};
}

Result run_recommend(const Options& options) {
  const std::vector<Compared> all = compare(options.shape, model_of(options), options.limit);
  const std::vector<Compared> fitting = recommended(all);
  Result result{.text = to_text(table_of(fitting), options.format)};
  if (!fitting.empty()) return result;
  result.notes = "no kind fits:\n";
  for (const Compared& one : all) {
    result.notes += "  " + std::string(name(one.kind)) + ": " + one.why_not + '\n';
  }
  result.status = kFailed;
  return result;
}

}  // namespace

Result run(const Options& options) {
  switch (options.command) {
    case Command::kPrint: return run_print(options);
    case Command::kCheck: return run_check(options);
    case Command::kLower: return run_lower(options);
    case Command::kSimulate: return run_simulate(options);
    case Command::kSearch: return run_search(options);
    case Command::kCompare: return run_compare(options);
    case Command::kRecommend: return run_recommend(options);
  }
  return {};
}

std::string content_of(const std::string& file) {
  const bool is_input = file == "-";
  const auto close = [is_input](std::FILE* in) {
    if (!is_input) std::fclose(in);
  };
  const std::unique_ptr<std::FILE, decltype(close)> in(
      is_input ? stdin : std::fopen(file.c_str(), "rb"), close);
  std::string text;
  if (in != nullptr) {
    std::array<char, 65536> part;
    while (const std::size_t size = std::fread(part.data(), 1, part.size(), in.get())) {
      text.append(part.data(), size);
    }
  }
  if (in == nullptr || std::ferror(in.get()) != 0) {
    throw leat::Error("cannot read " + file + ": " + std::generic_category().message(errno));
  }
  return text;
}

}  // namespace schedule_program
