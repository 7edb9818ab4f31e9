#include "leat/pipeline/check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/pipeline/kinds.h"
#include "leat/pipeline/simulate.h"
#include "leat/pipeline/text.h"

namespace leat::pipeline {
namespace {

Schedule one_f_one_b(int ranks, int microbatches) {
  return make(Kind::kOneFOneB, {.ranks = ranks, .microbatches = microbatches});
}

std::vector<std::string> reasons(const std::string& csv, std::int32_t microbatches = 0) {
  std::vector<std::string> reasons;
  for (const Finding& one : check(parse(csv, microbatches)).findings) {
    reasons.push_back(to_string(std::vector{one}));
  }
  return reasons;
}
using Reasons = std::vector<std::string>;

TEST(PipelineCheck, WhatIsWrongIsToldWithItsPlace) {
  EXPECT_EQ(reasons("0F0,0B0\n1F0,1B0\n"), Reasons{});
  EXPECT_EQ(reasons("0F0,0F0,0B0\n"),
            Reasons{"row 0, column 1: 0F0 is there twice, first in column 0"});
  EXPECT_EQ(reasons("0F0,0B0,0B0\n"),
            Reasons{"row 0, column 2: 0B0 is there twice, first in column 1"});
  EXPECT_EQ(reasons("0F0,0W0\n"),
            (Reasons{"row 0: 0B0 is missing", "row 0, column 1: 0W0 is without 0I0"}));
  EXPECT_EQ(reasons("0F0,0I0\n"), Reasons{"row 0: 0W0 is missing"});
  EXPECT_EQ(reasons("0F0,0W0,0I0\n"), Reasons{"row 0, column 1: 0W0 is before 0I0"});
  EXPECT_EQ(reasons("0B0,0F0\n"), Reasons{"row 0, column 0: 0B0 is before 0F0"});
  EXPECT_EQ(reasons("0F0,0B0,0I0,0W0\n"), Reasons{"row 0, column 1: 0B0 and 0I0 are both there"});
  EXPECT_EQ(reasons("0F0,0B0\n", 2), (Reasons{"row 0: 0F1 is missing", "row 0: 0B1 is missing"}));
  EXPECT_EQ(reasons("0F0,0B0\n2F0,2B0\n")[0], "stage 1 is missing");
  EXPECT_EQ(reasons("0F0,0B0\n\n"), Reasons{"row 1: the rank has no stage"});
  EXPECT_EQ(reasons("0F0\n0B0\n")[1], "row 1, column 0: 0B0: stage 0 is on rank 0, too");
  EXPECT_EQ(reasons("1F0,0F0,1B0,0B0\n"), Reasons{"row 0, column 0: 1F0 is before 0F0"});
  EXPECT_EQ(reasons("0F0,1F0,0B0,1B0\n"), Reasons{"row 0, column 2: 0B0 is before 1B0"});
  EXPECT_EQ(reasons("0F0,0F5,0B0\n").size(), 9);  // 0F1 to 0F4, 0B1 to 0B5
  EXPECT_EQ(reasons("0F0,0B0,0WAIT_REDUCE_GRAD\n"),
            Reasons{"row 0, column 2: 0WAIT_REDUCE_GRAD is without 0REDUCE_GRAD before it"});
  EXPECT_EQ(reasons("0F0,0REDUCE_GRAD,0B0\n"),
            Reasons{"row 0, column 1: 0REDUCE_GRAD is before 0B0"});
}

TEST(PipelineCheck, TransfersHaveTheirPlaces) {
  const std::string good = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";
  EXPECT_EQ(reasons(good), Reasons{});
  EXPECT_EQ(
      reasons("0F0+0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"),
      Reasons{"row 0, column 0: 0SEND_F0 is in the cell of 0F0: actions of a cell start together"});
  EXPECT_EQ(reasons("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n"),
            Reasons{"row 1, column 0: 1F0 is before 1RECV_F0"});
  EXPECT_EQ(reasons("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n"),
            Reasons{"row 1, column 0: 1F0 is without 1RECV_F0"});
  EXPECT_EQ(reasons("0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"),
            Reasons{"row 0: 0SEND_F0 is missing"});
  EXPECT_EQ(reasons("0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"),
            Reasons{"row 0, column 2: 0B0 is without 0RECV_B0"});
  EXPECT_EQ(reasons("0F0,0WAIT_SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"),
            Reasons{"row 0, column 1: 0WAIT_SEND_F0 is before 0SEND_F0"});
  EXPECT_EQ(reasons("0F0,0SEND_F0,0RECV_B0,0B0,0SEND_B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"),
            Reasons{"row 0, column 4: 0SEND_B0: there is no stage -1"});
  EXPECT_EQ(reasons("0F0,0SEND_F0,1F0,1B0,0B0\n"),
            Reasons{"row 0, column 1: 0SEND_F0: stage 1 is on the same rank"});
}

TEST(PipelineCheck, CrossedSendsAreTold) {
  EXPECT_EQ(reasons("0F0,0F1,0SEND_F1,0SEND_F0,0RECV_B0,0B0,0RECV_B1,0B1\n"
                    "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n")[0],
            "row 1, column 0: 1RECV_F0: microbatch 1 is sent before it");
}

TEST(PipelineCheck, AnOrderWhoseNeighboursTakeMicrobatchesInAnotherOrderIsRefused) {
  EXPECT_EQ(reasons("0F0,0F1,0B1,0B0\n1F1,1B1,1F0,1B0\n"),
            (Reasons{"row 1, column 0: 1F1: microbatch 0 is sent before it",
                     "row 1, column 2: 1F0: microbatch 1 is sent before it"}));
  EXPECT_EQ(reasons("0F0,0F1,0B0,0B1\n1F0,1F1,1I1,1I0,1W0,1W1\n"),
            (Reasons{"row 0, column 2: 0B0: microbatch 1 is sent before it",
                     "row 0, column 3: 0B1: microbatch 0 is sent before it"}));
  // The stages of one rank need no channel between them.
  EXPECT_EQ(reasons("0F0,0F1,1F1,1F0,1B0,1B1,0B1,0B0\n"), Reasons{});
}

TEST(PipelineCheck, ManyRanksAreCheckedInTheTimeOfTheirCells) {
  std::string text;
  for (int r = 0; r < 50'000; ++r) {
    const std::string stage = std::to_string(r);
    text += stage + "F0," + stage + "B0\n";
  }
  EXPECT_EQ(check(parse(text)).capacities.to_run, 0);
  EXPECT_EQ(check(parse(text + "0F1\n")).findings.size(), 20);
}

TEST(PipelineCheck, TwoGreatNumbersAreNoGreatTable) {
  const std::vector<std::string> told = reasons("0F0,0B0,1000000F1000000\n");
  ASSERT_EQ(told.size(), 20);
  EXPECT_EQ(told.front(), "0F1 is missing");
}

TEST(PipelineCheck, ALimitOfActivationsIsKept) {
  const Schedule schedule = one_f_one_b(4, 8);
  EXPECT_EQ(peak_activations(schedule), (std::vector<std::int64_t>{4, 3, 2, 1}));
  EXPECT_TRUE(check(schedule, {.limit = {4}}).findings.empty());
  EXPECT_TRUE(check(schedule, {.limit = {4, 3, 2, 1}}).findings.empty());
  const CheckResult result = check(schedule, {.limit = {4, 2, 2, 1}});
  EXPECT_EQ(to_string(result.findings),
            "row 1, column 2: 1F2 is activation 3 that lives; the limit is 2");
  EXPECT_THROW((void)check(schedule, {.limit = {0}}), std::invalid_argument);
  EXPECT_THROW((void)check(schedule, {.limit = {1, 2}}), std::invalid_argument);
  EXPECT_THROW((void)check(schedule, {.capacity = -1}), std::invalid_argument);
}

TEST(PipelineCheck, OneFOneBStopsWithoutPlacesAndIsToldWhere) {
  const Schedule schedule = one_f_one_b(4, 8);
  EXPECT_TRUE(check(schedule).findings.empty());
  EXPECT_EQ(check(schedule).capacities.to_run, 1);
  EXPECT_EQ(check(schedule).capacities.full_speed, 1);
  const CheckResult result = check(schedule, {.capacity = 0});
  ASSERT_TRUE(result.stop.has_value());
  std::vector<std::string> stuck;
  for (const StuckTransfer& one : result.stop->stuck) stuck.push_back(to_string(one.action));
  EXPECT_EQ(stuck, (Reasons{"0SEND_F3", "1SEND_F2", "2SEND_F1", "3SEND_B0"}));
  EXPECT_EQ(result.stop->cycle, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(result.report(schedule).substr(0, 335),
            "it stops at capacity 0; 1 is the least that runs\n"
            "rank 0 is stuck at 0SEND_F3 (column 7), which waits for rank 1\n"
            "rank 1 is stuck at 1SEND_F2 (column 8), which waits for rank 2\n"
            "rank 2 is stuck at 2SEND_F1 (column 5), which waits for rank 3\n"
            "rank 3 is stuck at 3SEND_B0 (column 3), which waits for rank 2\n"
            "cycle: rank 2 -> rank 3 -> rank 2\n");
  EXPECT_NE(result.report(schedule).find("[FS03]"), std::string::npos);
  EXPECT_NE(result.report(schedule).find("[BS00]"), std::string::npos);
}

TEST(PipelineCheck, AnOrderThatNeverRunsIsRefused) {
  // Each rank waits for what the other does later.
  const Schedule schedule = parse("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  const CheckResult result = check(schedule);
  EXPECT_EQ(to_string(result.findings), "it stops with any capacity");
  ASSERT_TRUE(result.stop.has_value());
  EXPECT_EQ(result.stop->cycle.size(), 2);
}

TEST(PipelineCheck, LoweringPutsRecvsBeforeAndSendsAfter) {
  EXPECT_EQ(to_csv(lower(parse("0F0,,(0F1;3B0)OVERLAP_F_B,3F0,3B1,0B0\n1F0,2F0,2B0,1B0\n"))),
            "0F0,0SEND_F0,,(0F1;3B0)OVERLAP_F_B,0SEND_F1,3SEND_B0,"
            "3RECV_F0,3F0,3B1,3SEND_B1,0RECV_B0,0B0\r\n"
            "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\r\n");
  const Schedule lowered = lower(one_f_one_b(3, 4));
  EXPECT_EQ(lower(lowered), lowered);
}

TEST(PipelineCheck, TorchsFilesRunWhereTheyDo) {
  int comms = 0;
  int defer = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/pipeline/data/torch")) {
    const std::string name = entry.path().filename();
    const Schedule schedule = read_schedule(entry.path());
    const CheckResult result = check(schedule);
    const bool is_1f1b = name.find("-1F1B-") != std::string::npos;
    const bool is_defer = name.find("-defer") != std::string::npos;
    EXPECT_EQ(result.findings.empty(), !is_1f1b && !is_defer) << name << "\n"
                                                              << result.report(schedule);
    if (name.find("-comms") != std::string::npos) {
      EXPECT_EQ(result.capacities.to_run, 0) << name;
      ++comms;
    }
    if (!is_defer) continue;
    ++defer;
    EXPECT_TRUE(result.stop.has_value()) << name;
    EXPECT_EQ(result.capacities.to_run, name.find("LoopedBFS") != std::string::npos ? 4 : 1)
        << name;
  }
  EXPECT_GE(comms, 8);
  EXPECT_EQ(defer, 4);
  const CheckResult wrong =
      check(read_schedule("tests/pipeline/data/torch/torch-2.15-1F1B-v1-r4-b8-compute.csv"));
  EXPECT_NE(to_string(wrong.findings).find("row 3, column 1: 3B0 is without 3F0"),
            std::string::npos)
      << to_string(wrong.findings);
}

}  // namespace
}  // namespace leat::pipeline
