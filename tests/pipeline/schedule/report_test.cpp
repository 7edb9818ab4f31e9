// What was found about schedules, in every format.
#include "leat/pipeline/schedule/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "leat/pipeline/kinds.h"
#include "leat/pipeline/text.h"
#include "tests/support/texts.h"

namespace schedule_program {
namespace report_test {

using namespace leat::pipeline;

TEST(ScheduleReport, JsonOfAScheduleHasItsCells) {
  const Schedule schedule = parse("0F0,,0SEND_F0+0F1,0RECV_B0\n1RECV_F0,(1F0;1B0)OVERLAP_F_B\n", 3);
  const Json json = to_json(schedule);
  EXPECT_EQ(json.at("stages"), 2);
  EXPECT_EQ(json.at("microbatches"), 3);
  EXPECT_EQ(json.at("rows")[0], Json({"0F0", "", "0SEND_F0+0F1", "0RECV_B0"}));
  EXPECT_EQ(json.at("rows")[1], Json({"1RECV_F0", "(1F0;1B0)OVERLAP_F_B"}));
}

TEST(ScheduleReport, EachFindingHasTheNameInFront) {
  const Schedule schedule = parse("0F0,0F0\n1B0\n");
  const std::string text = check_text(schedule, check(schedule), "my.csv", Format::kGrid);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(text, '\n')),
            check(schedule).findings.size());
  leat::support::expect_contains(text, {"my.csv: row 0, column 1: 0F0 is there twice"});
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    EXPECT_EQ(text.compare(at, 8, "my.csv: "), 0) << text.substr(at);
  }
}

TEST(ScheduleReport, JsonOfAStopHasWhatIsStuckAndTheCycle) {
  const Schedule order = make(Kind::kOneFOneB, {.ranks = 4, .microbatches = 8});
  const CheckResult result = check(order, {.capacity = 0});
  const Json json = Json::parse(check_text(order, result, "1F1B", Format::kJson));
  EXPECT_EQ(json.at("can_run"), false);
  EXPECT_EQ(json.at("capacity_to_run"), 1);
  ASSERT_EQ(json.at("stop").at("stuck").size(), 4U);
  EXPECT_EQ(json.at("stop").at("stuck")[3].at("action"), "3SEND_B0");
  EXPECT_EQ(json.at("stop").at("stuck")[3].at("peer"), 2);
  EXPECT_EQ(json.at("stop").at("cycle"), Json(result.stop->cycle));
  EXPECT_FALSE(json.contains("peak_activations"));
}

TEST(ScheduleReport, CsvOfAStopHasWhatIsStuckBelowTheFindings) {
  const Schedule order = make(Kind::kOneFOneB, {.ranks = 4, .microbatches = 8});
  const CheckResult result = check(order, {.capacity = 0});
  EXPECT_EQ(check_text(order, result, "1F1B", Format::kCsv),
            "row,column,reason\n"
            ",,it stops at capacity 0; 1 is the least that runs\n"
            "0,7,\"stuck at 0SEND_F3, which waits for rank 1\"\n"
            "1,8,\"stuck at 1SEND_F2, which waits for rank 2\"\n"
            "2,5,\"stuck at 2SEND_F1, which waits for rank 3\"\n"
            "3,3,\"stuck at 3SEND_B0, which waits for rank 2\"\n");
}

TEST(ScheduleReport, JsonOfASimulationHasEveryAction) {
  const Simulation simulation =
      simulate(make(Kind::kZbv, {.ranks = 2, .microbatches = 4}), {.link = 2});
  const Json json = Json::parse(simulation_text(simulation, Format::kJson));
  EXPECT_EQ(json.at("makespan"), simulation.makespan);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(json.at("ranks")[rank].at("wait"), simulation.ranks[rank].wait);
    ASSERT_EQ(json.at("actions")[rank].size(), simulation.spans[rank].size());
    for (std::size_t i = 0; i < simulation.spans[rank].size(); ++i) {
      const Span& span = simulation.spans[rank][i];
      EXPECT_EQ(json.at("actions")[rank][i],
                Json::array({to_string(span.action), span.begin, span.end}));
    }
  }
  const Json& path = json.at("critical_path");
  ASSERT_EQ(path.size(), simulation.critical_path.size());
  EXPECT_EQ(path.back().at("rank"), simulation.critical_path.back().row);
  EXPECT_EQ(path.back().at("end"), simulation.makespan);
}

TEST(ScheduleReport, ALongCriticalPathIsCut) {
  for (const int microbatches : {4, 64}) {
    const Schedule order = make(Kind::kOneFOneB, {.ranks = 4, .microbatches = microbatches});
    const Simulation simulation = simulate(order, {.link = 5});
    std::ptrdiff_t stretches = 1;
    for (std::size_t i = 1; i < simulation.critical_path.size(); ++i) {
      stretches += simulation.critical_path[i].row != simulation.critical_path[i - 1].row ? 1 : 0;
    }
    const std::string text = simulation_text(simulation, Format::kGrid);
    const std::string path = text.substr(text.find("critical path:\n"));
    const std::string rest = "  and " + std::to_string(stretches - 24) + " more (all of it";
    EXPECT_EQ(stretches > 24, microbatches == 64);
    EXPECT_EQ(std::ranges::count(path, '\n'), 1 + std::min<std::ptrdiff_t>(stretches, 25));
    EXPECT_EQ(path.find(rest) != std::string::npos, stretches > 24) << path;
  }
}

TEST(ScheduleReport, ASearchTellsItsProofOrItsGap) {
  EXPECT_EQ(search_note({.schedule = {}, .makespan = 24, .bound = 24}),
            "makespan 24, proved: no schedule is shorter\n");
  EXPECT_EQ(search_note({.schedule = {}, .makespan = 225, .bound = 200}),
            "makespan 225, bound 200, gap 12.5 %\n");
  const Json json = Json::parse(
      search_text({.schedule = parse("0F0,0B0\n"), .makespan = 9, .bound = 3}, Format::kJson));
  EXPECT_EQ(json.at("proved"), false);
  EXPECT_EQ(json.at("rows")[0], Json({"0F0", "0B0"}));
}

}  // namespace report_test
}  // namespace schedule_program
