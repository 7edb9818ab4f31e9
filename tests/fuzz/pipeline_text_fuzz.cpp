// Schedules as text: what is read comes back as CSV and as a grid; all else is an error that says
// where. What is read is then checked, and if it can run, lowered and simulated.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "leat/pipeline/check.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/simulate.h"
#include "leat/pipeline/text.h"
#include "tests/fuzz/support.h"

namespace {

using namespace leat::pipeline;
using namespace leat::fuzz;

void check_findings(const std::vector<Finding>& findings) {
  require(!findings.empty() && findings.size() <= kMostFindings,
          std::to_string(findings.size()) + " findings");
  for (const Finding& one : findings) {
    require(!one.reason.empty(), "a finding without a reason");
    require(one.row >= -1 && one.column >= -1, "a finding nowhere");
    require(one.row >= 0 || one.column < 0, "a column without a row");
    require(one.reason.size() < 1000, "a reason of " + std::to_string(one.reason.size()));
    for (const char c : one.reason) {
      require(c >= ' ' && c != '\x7f' && static_cast<unsigned char>(c) < 0x80,
              "not plain text in: " + one.reason);
    }
  }
}

std::optional<Schedule> read(const std::string& text, std::int32_t microbatches) {
  try {
    return parse(text, microbatches, "fuzzed.csv");
  } catch (const ScheduleError& error) {
    check_findings(error.findings());
    const std::string what = error.what();
    require(what.find("fuzzed.csv") != std::string::npos, "no file in: " + what);
    require(what.size() < 30'000, "a text of " + std::to_string(what.size()) + " bytes");
  }
  return std::nullopt;
}

// Whether each rank r has stage r, and no other: such a grid can be read.
bool is_simple(const Schedule& schedule) {
  if (static_cast<std::size_t>(schedule.stages) != schedule.rows.size()) return false;
  for (std::size_t row = 0; row < schedule.rows.size(); ++row) {
    std::size_t actions = 0;
    for (const Cell& cell : schedule.rows[row]) {
      actions += cell.size();
      for (const Action& one : cell) {
        if (static_cast<std::size_t>(one.stage) != row) return false;
      }
    }
    if (actions == 0) return false;
  }
  return true;
}

// Beyond this, grids and reports are larger than they tell anybody.
constexpr std::size_t kMostCells = 100'000;

std::size_t area(const Schedule& schedule) {
  std::size_t widest = 1;
  for (const Row& row : schedule.rows) widest = std::max(widest, row.size());
  return widest * schedule.rows.size();
}

void write_and_read(const Schedule& schedule) {
  const std::string csv = to_csv(schedule);
  const std::optional<Schedule> again = read(csv, schedule.microbatches);
  require(again == schedule, "another schedule comes back from CSV:\n" + csv);
  require(to_csv(*again) == csv, "another text comes back from CSV");
  if (area(schedule) > kMostCells) return;
  const std::string grid = to_grid(schedule);
  if (!is_simple(schedule)) return;
  const std::optional<Schedule> seen = read(grid, schedule.microbatches);
  require(seen.has_value(), "a grid that cannot be read:\n" + grid);
  require(to_grid(*seen) == grid, "another grid comes back:\n" + grid);
}

void use(const Schedule& schedule) {
  const CheckResult result = check(schedule);
  const std::string report =
      area(schedule) <= kMostCells ? result.report(schedule) : std::string("large");
  if (!result.findings.empty()) {
    check_findings(result.findings);
    require(!report.empty(), "faults without a report");
    return;
  }
  const Schedule whole = lower(schedule);
  require(check(whole, {.capacity = result.capacities.to_run}).findings.empty(),
          "lowered, a good schedule has faults:\n" + to_csv(whole));
  const Simulation simulation = simulate(schedule);
  require(!simulation.stop.has_value(), "a good schedule stops:\n" + to_csv(whole));
  require(makespan(whole) == simulation.makespan, "two makespans:\n" + to_csv(whole));
}

}  // namespace

// The input is the text; its first byte, if it is no character, the number of microbatches.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  std::int32_t microbatches = 0;
  if (!text.empty() && text[0] > '\0' && text[0] < '\t') {
    microbatches = text[0];
    text.erase(0, 1);
  }
  if (const std::optional<Schedule> schedule = read(text, microbatches)) {
    write_and_read(*schedule);
    use(*schedule);
  }
  return 0;
}
