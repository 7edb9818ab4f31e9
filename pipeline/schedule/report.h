// Schedules and what was found about them, in every format.
#pragma once

#include <string>

#include "leat/pipeline/check.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/schedule/table.h"
#include "leat/pipeline/search.h"
#include "leat/pipeline/simulate.h"

namespace schedule_program {

/// {"stages", "microbatches", "rows": [["0F0", "", ...], ...]}, cells as in CSV.
[[nodiscard]] Json to_json(const leat::pipeline::Schedule& schedule);
/// The schedule in a format; JSON is one line.
[[nodiscard]] std::string schedule_text(const leat::pipeline::Schedule& schedule, Format format);

/// What a check has found. CSV: the findings, "row,column,reason", then each transfer that is
/// stuck. `name`: what was checked.
[[nodiscard]] std::string check_text(const leat::pipeline::Schedule& schedule,
                                     const leat::pipeline::CheckResult& result,
                                     const std::string& name, Format format);

/// What a simulation has found. CSV: one line for each rank. JSON has every action with its begin
/// and end, too.
[[nodiscard]] std::string simulation_text(const leat::pipeline::Simulation& simulation,
                                          Format format);

/// The schedule that a search has found; in JSON with makespan and bound.
[[nodiscard]] std::string search_text(const leat::pipeline::SearchResult& found, Format format);
/// "makespan 24, proved: no schedule is shorter".
[[nodiscard]] std::string search_note(const leat::pipeline::SearchResult& found);

}  // namespace schedule_program
