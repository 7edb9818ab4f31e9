#include "leat/pipeline/text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace leat::pipeline {
namespace {

using Places = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// Where faults are.
Places faults(std::string_view text, std::int32_t microbatches = 0) {
  Places places;
  try {
    (void)parse(text, microbatches);
  } catch (const ScheduleError& error) {
    for (const Finding& one : error.findings()) places.emplace_back(one.row, one.column);
  }
  return places;
}
std::string reason(std::string_view text, std::int32_t microbatches = 0) {
  try {
    (void)parse(text, microbatches);
  } catch (const ScheduleError& error) {
    return error.findings().front().reason;
  }
  return "";
}

TEST(PipelineText, WhatTorchWroteComesBackByteForByte) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/pipeline/data/torch")) {
    std::stringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    EXPECT_EQ(to_csv(read_schedule(entry.path())), text.str()) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 20);
}

TEST(PipelineText, IdleCellsAndRowsOfUnequalLengthComeBack) {
  for (const std::string text :
       {"0F0,,0B0,\r\n,1F0\r\n", ",0F0\r\n,,\r\n\r\n", "\"\"\r\n0F0\r\n"}) {
    EXPECT_EQ(to_csv(parse(text)), text);
  }
  EXPECT_EQ(parse(",0F0\r\n,,\r\n\r\n").rows[1].size(), 3);
  EXPECT_TRUE(parse("0F0\n\n1F0\n").rows[1].empty());
}

TEST(PipelineText, EveryActionIsReadAndWritten) {
  const std::string text =
      "2F0,2B1,2I2,2W3,2SEND_F4,2RECV_F5,2SEND_B6,2RECV_B7,2WAIT_SEND_F8,2WAIT_SEND_B9,2UNSHARD,"
      "2RESHARD,2REDUCE_GRAD,2WAIT_REDUCE_GRAD,(0F5;7B0)OVERLAP_F_B,(0F5;7I0)OVERLAP_F_B,"
      "0F1+0SEND_F0,0SEND_F0+(0F5;7B0)OVERLAP_F_B+0RECV_B2\r\n";
  const Schedule schedule = parse(text);
  EXPECT_EQ(to_csv(schedule), text);
  const Row& row = schedule.rows.front();
  EXPECT_EQ(row[4].front(), (Action{.stage = 2, .op = Op::kSendForward, .microbatch = 4}));
  EXPECT_EQ(row[13].front(), (Action{.stage = 2, .op = Op::kWaitReduceGrad}));
  EXPECT_EQ(row[17][1], (Action{.stage = 0, .op = Op::kForward, .paired = true, .microbatch = 5}));
  EXPECT_EQ(row[17].size(), 4);
  EXPECT_EQ(schedule.stages, 8);
  EXPECT_EQ(schedule.microbatches, 10);
}

TEST(PipelineText, LinesMayEndWithLfOrNotAtAllAndBlanksAroundCellsAreLeftOut) {
  const Schedule schedule = parse("0F0,0B0\r\n1F0,1B0\r\n");
  EXPECT_EQ(parse("0F0,0B0\n1F0,1B0\n"), schedule);
  EXPECT_EQ(parse("0F0,0B0\n1F0,1B0"), schedule);
  EXPECT_EQ(parse(" 0F0 , 0B0\t\r\n1F0,1B0"), schedule);
}

TEST(PipelineText, MicrobatchesAreThoseGiven) {
  EXPECT_EQ(parse("0F0,0B0", 5).microbatches, 5);
  EXPECT_EQ(faults("0F0,0F5", 5), (Places{{0, 1}}));
}

TEST(PipelineText, AGridIsReadAsItIsWritten) {
  const std::string grid =
      "FW00 FS00 FW01      .    IG00 WG00 US\n"
      ".    FR00 BR00+FS01 FW00 BW00 .    SF00\n";
  const Schedule schedule = parse(grid);
  EXPECT_EQ(to_grid(schedule), grid);
  EXPECT_EQ(to_csv(schedule),
            "0F0,0SEND_F0,0F1,,0I0,0W0,0UNSHARD\r\n,1RECV_F0,1RECV_B0+1SEND_F1,1F0,1B0,,1WAIT_SEND_"
            "F0\r\n");
  EXPECT_EQ(parse("FW100 BW07\n").microbatches, 101);
  const std::string pair = "(FW01;BW00) FW02\n";
  EXPECT_EQ(to_grid(parse(pair)), pair);
}

TEST(PipelineText, AGridHasALineForEachStageOrForEachRankOfSeveral) {
  EXPECT_EQ(to_grid(parse("1F0\n0F0,0F1\n")), "FW00 FW01\nFW00\n");  // stage 0 is on rank 1
  EXPECT_EQ(to_grid(parse("0F0,2F0\n1F0,,1F1+1SEND_F0\n")),
            "0FW00 2FW00\n1FW00 .     1FS00+1FW01\n");
  EXPECT_EQ(to_grid(parse("0F0,0F1\n1F0\n"), {{0, 1}, {1, 0}}), "FW00   [FW01]\n[FW00]\n");
}

// Else one cell of a million actions makes a column as wide on every rank.
TEST(PipelineText, AWideCellDoesNotWidenItsColumn) {
  std::string wide = "BS00";
  for (int b = 1; b < 30; ++b) wide += "+BS" + std::string(b < 10 ? "0" : "") + std::to_string(b);
  const std::string grid = "FW00 .    FW01\n" + wide + " FS00 FW01\n";
  EXPECT_EQ(to_grid(parse(grid)), grid);
}

TEST(PipelineText, WhatComputesInACellKeepsItsOrderInAGrid) {
  EXPECT_EQ(to_grid(parse("0F1+0B0\n")), "FW01+BW00\n");
  EXPECT_EQ(parse("FW01+BW00\n"), parse("0F1+0B0\n"));
}

TEST(PipelineText, FaultsHaveRowColumnAndReason) {
  EXPECT_EQ(faults("0F\n"), (Places{{0, 0}}));
  EXPECT_EQ(reason("0F\n"), "\"0F\" has no microbatch");
  EXPECT_EQ(faults("0F0\n0F0,0F0x\n"), (Places{{1, 1}}));
  EXPECT_EQ(reason("0F0x"), "\"0F0x\" has something behind: \"x\"");
  EXPECT_EQ(reason("0F0,99999999999999999999F0"),
            "\"99999999999999999999F0\": the stage in front is greater than 1048575");
  EXPECT_EQ(faults("0F0,00F0,0F01,0 F0,(0B1;0F0)OVERLAP_F_B"),
            (Places{{0, 1}, {0, 2}, {0, 3}, {0, 4}}));
  EXPECT_EQ(faults("0F0,+,0F0+"), (Places{{0, 1}, {0, 1}, {0, 2}}));
  EXPECT_NE(reason("\xEF\xBB\xBF"
                   "0F0\n")
                .find("byte order mark"),
            std::string::npos);
}

TEST(PipelineText, AtMost20FaultsAreTold) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "x,";
  text = "0F0," + text;
  EXPECT_EQ(faults(text).size(), 20);
  try {
    (void)parse(text, 0, "a.csv");
    FAIL();
  } catch (const ScheduleError& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with("a.csv: row 0, column 1: \"x\"")) << what;
    EXPECT_TRUE(what.ends_with("a.csv: there may be more")) << what;
  }
}

}  // namespace
}  // namespace leat::pipeline
