// The figure: well-formed, with a box for each action and what a stop means.
#include "leat/pipeline/schedule/figure.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "leat/pipeline/kinds.h"
#include "tests/support/texts.h"

namespace schedule_program {
namespace figure_test {

using namespace leat::pipeline;

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// Whether each element that begins also ends, in order.
bool nests(std::string_view svg) {
  std::vector<std::string> open;
  for (std::size_t at = svg.find('<'); at != std::string_view::npos; at = svg.find('<', at + 1)) {
    const std::size_t end = svg.find('>', at);
    if (end == std::string_view::npos) return false;
    const std::string_view tag = svg.substr(at + 1, end - at - 1);
    const std::string name(tag.substr(0, tag.find_first_of(" \n")));
    if (tag.starts_with('/')) {
      if (open.empty() || '/' + open.back() != name) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
  }
  return open.empty();
}

TEST(ScheduleFigure, HasABoxForEachActionAndALineForEachTransfer) {
  const Schedule order = make(Kind::kZeroBubble, {.ranks = 4, .microbatches = 8});
  const std::string svg = figure_svg(order, simulate(order), "H1");
  EXPECT_TRUE(nests(svg));
  EXPECT_EQ(count(svg, "<title>"), 4U * 8 * 3);
  EXPECT_EQ(count(svg, "<line "), 3U * 8 * 2);
  EXPECT_EQ(count(svg, "class=\"on\""), 4U * 8 * 3);  // microbatches
  leat::support::expect_contains(svg,
                                 {"H1: makespan 27, bubble 11.1 %", "rank 3", "3W7: 26 to 27"});
}

TEST(ScheduleFigure, BoxesAreWhereTheirTimesAre) {
  const Schedule order = make(Kind::kZbv, {.ranks = 2, .microbatches = 4});
  const CostModel model{.stages = {{.forward = 3, .backward_input = 2, .backward_weight = 4}}};
  const Simulation simulation = simulate(order, model);
  const std::string svg = figure_svg(order, simulation, "V");
  const std::regex pattern(
      "<rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\"[^>]*><title>([0-9])[FIW][0-9]: "
      "([0-9]+) to ([0-9]+)<");
  std::set<std::string> rows[2];  // where the boxes of each rank are
  std::size_t boxes = 0;
  const double tick = 1200.0 / static_cast<double>(simulation.makespan);
  for (std::sregex_iterator one(svg.begin(), svg.end(), pattern), end; one != end; ++one) {
    const std::smatch& box = *one;
    EXPECT_NEAR(std::stod(box[1]), 70 + std::stod(box[5]) * tick, 0.6) << box[0];
    EXPECT_NEAR(std::stod(box[3]), (std::stod(box[6]) - std::stod(box[5])) * tick, 1.1) << box[0];
    const int stage = std::stoi(box[4]);
    rows[stage == 0 || stage == 3 ? 0 : 1].insert(box[2]);
    ++boxes;
  }
  EXPECT_EQ(boxes, 4U * 4 * 3);
  EXPECT_EQ(rows[0].size(), 1U);
  EXPECT_EQ(rows[1].size(), 1U);
  EXPECT_NE(rows[0], rows[1]);
}

TEST(ScheduleFigure, EscapesTheName) {
  const Schedule order = make(Kind::kGpipe, {.ranks = 1, .microbatches = 1});
  const std::string svg = figure_svg(order, simulate(order), "<a & \"b\">\n\xFF");
  EXPECT_TRUE(nests(svg));
  leat::support::expect_contains(svg, {"&lt;a &amp; &quot;b&quot;&gt; \xEF\xBF\xBD: makespan 3"});
}

TEST(ScheduleFigure, AStopShowsWhatIsStuck) {
  const Schedule order = make(Kind::kOneFOneB, {.ranks = 4, .microbatches = 8});
  const std::string svg = figure_svg(order, simulate(order, {.capacity = 0}), "1F1B");
  EXPECT_TRUE(nests(svg));
  leat::support::expect_contains(
      svg, {"1F1B: stops at tick 6", "0SEND_F3 is stuck", "1SEND_F2 is stuck", "2SEND_F1 is stuck",
            "3SEND_B0 is stuck"});
}

TEST(ScheduleFigure, AScheduleWithoutTimeIsDrawn) {
  const Schedule order = make(Kind::kGpipe, {.ranks = 2, .microbatches = 2});
  const CostModel nothing{.stages = {{.forward = 0, .backward_input = 0, .backward_weight = 0}}};
  EXPECT_TRUE(nests(figure_svg(order, simulate(order, nothing), "none")));
}

}  // namespace figure_test
}  // namespace schedule_program
