// Models as JSON: what they mean, and where what is wrong is.
#include "leat/pipeline/schedule/model.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "leat/pipeline/schedule.h"
#include "leat/pipeline/text.h"
#include "tests/support/texts.h"

namespace schedule_program {
namespace model_test {

using leat::pipeline::CostModel;
using leat::pipeline::Finding;
using leat::pipeline::ScheduleError;

std::vector<Finding> findings_of(std::string_view text) {
  try {
    (void)parse_model(text, "m.json");
  } catch (const ScheduleError& error) {
    leat::support::expect_begins(error.what(), "m.json: row ");
    return error.findings();
  }
  return {};
}

// Fails the test unless that is the one thing that is wrong.
void expect_finding(std::string_view text, std::int64_t row, std::int64_t column,
                    const std::string& reason) {
  const std::vector<Finding> found = findings_of(text);
  ASSERT_EQ(found.size(), 1U) << text;
  EXPECT_EQ(found[0], (Finding{.row = row, .column = column, .reason = reason})) << text;
}

TEST(ScheduleModel, ANumberIsOfAllStagesAndAListOfEach) {
  const CostModel model = parse_model(
      "{\"forward\": 2, \"backward_input\": [3, 4],\r\n\t\"backward_weight\":[0,1],"
      "\"activation_bytes\": 1e3, \"link\": 5, \"capacity\": 0}");
  ASSERT_EQ(model.stages.size(), 2U);
  EXPECT_EQ(model.of(0).forward, 2);
  EXPECT_EQ(model.of(1).forward, 2);
  EXPECT_EQ(model.of(0).backward_input, 3);
  EXPECT_EQ(model.of(1).backward_input, 4);
  EXPECT_EQ(model.of(1).backward_weight, 1);
  EXPECT_EQ(model.of(1).activation_bytes, 1000);
  EXPECT_EQ(model.link, 5);
  EXPECT_EQ(model.capacity, 0);
}

TEST(ScheduleModel, WhatIsLeftOutIsAsInACostModel) {
  const CostModel model = parse_model("{}");
  ASSERT_EQ(model.stages.size(), 1U);
  EXPECT_EQ(model.of(7).forward, 1);
  EXPECT_EQ(model.link, 0);
  EXPECT_FALSE(model.capacity.has_value());
}

TEST(ScheduleModel, ANumberThatIsNoneNegativeOrNotWholeIsFoundWhereItIs) {
  expect_finding("{\"forward\": -1}", 0, 12, "\"-1\" is negative");
  expect_finding("{\"forward\": [1,\n  -2.5]}", 1, 2, "\"-2.5\" is negative");
  expect_finding("{\"link\":NaN}", 0, 8, "\"NaN\" is no number");
  expect_finding("{\"link\":nan}", 0, 8, "\"nan\" is no number");
  expect_finding("{\"link\":-inf}", 0, 8, "\"-inf\" is no number");
  expect_finding("{\"link\":null}", 0, 8, "\"null\" is no number");
  expect_finding("{\n\"link\": 1.5}", 1, 8, "\"1.5\" is not whole");
  expect_finding("{\"link\": 1x}", 0, 9, "\"1x\" is no number");
  expect_finding("{\"link\": 99999999999999999999}", 0, 9, "\"99999999999999999999\" is too large");
  expect_finding("{\"link\": 1e999}", 0, 9, "\"1e999\" is too large");
  expect_finding("{\"capacity\": 2147483648}", 0, 1, "the capacity is too large");
}

TEST(ScheduleModel, WhatATerminalWouldObeyIsShownAsQuestionMarks) {
  expect_finding("{\"link\": \x1b(2J}", 0, 9, "\"?(2J\" is no number");
  expect_finding("{\"\xFF\x1b[2J\": 1}", 0, 1, "there is no \"??[2J\" in a model");
}

TEST(ScheduleModel, WhatAModelHasNotIsFound) {
  expect_finding("{\"froward\": 1}", 0, 1, "there is no \"froward\" in a model");
  expect_finding("{\"link\": 1, \"link\": 1}", 0, 12, "\"link\" is there twice");
  expect_finding("{\"link\": [1]}", 0, 1, "\"link\" is one number");
  expect_finding("{\"forward\": []}", 0, 1, "\"forward\" is an empty list");
  expect_finding("{\"forward\": [1, 2],\n \"backward_input\": [1, 2, 3]}", 1, 1,
                 "\"backward_input\" has 3 stages, and what is before it 2");
}

TEST(ScheduleModel, WhatIsNoJsonIsFound) {
  using namespace std::string_view_literals;
  expect_finding("", 0, 0, "the text ends, and has to be a '{'");
  expect_finding("[]", 0, 0, "here has to be a '{'");
  expect_finding("\xEF\xBB\xBF{}", 0, 0, "here has to be a '{'");
  expect_finding("{\0}"sv, 0, 1, "here has to be a '\"'");
  expect_finding("{}\0"sv, 0, 2, "nothing may follow the object");
  expect_finding("{} {}", 0, 3, "nothing may follow the object");
  expect_finding("{\"link\" 1}", 0, 8, "here has to be a ':'");
  expect_finding("{\"link\": 1,}", 0, 11, "here has to be a '\"'");
  expect_finding("{\"link", 0, 6, "the text ends, and has to be a '\"'");
  expect_finding("{\"link\": }", 0, 9, "here has to be a number");
  expect_finding("{\"forward\": [1", 0, 14, "the text ends, and has to be a ']'");
  expect_finding("{\"forward\": [[1]]}", 0, 13, "here has to be a number");
}

TEST(ScheduleModel, AllFaultsAreFoundUpTo20) {
  EXPECT_EQ(findings_of("{\"link\": -1, \"forward\": [1.5, NaN]}").size(), 3U);
  std::string many = "{\"forward\": [-1";
  for (int i = 0; i < 1000; ++i) many += ", -1";
  EXPECT_EQ(findings_of(many + "]}").size(), leat::pipeline::kMostFindings);
}

}  // namespace model_test
}  // namespace schedule_program
