// The figures of traces of real GPUs (traces/README.md), and names that mean harm.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "leat/overlap/trace/figures/analysis.h"
#include "leat/overlap/trace/model.h"
#include "leat/overlap/trace/readers/events.h"
#include "leat/overlap/trace/report/json.h"
#include "leat/overlap/trace/report/table.h"
#include "tests/support/temporary_directory.h"

namespace overlap::trace {
namespace trace_real_test {

DeviceReport real(const std::string& name, const AnalysisOptions& options = {}) {
  const Trace trace =
      read_events("tests/overlap/traces/" + name + ".json.gz", options.rules, false);
  TraceReport report = analyze(trace, options);
  EXPECT_EQ(report.devices.size(), 1U);
  return report.devices.at(0);
}

// Nanoseconds, of the whole span.
struct Expected {
  std::uint64_t ops;
  Time span;
  std::vector<std::pair<Part, Time>> parts;  // others: 0
  std::array<Time, kCauses> idle;            // by Cause
  double oe;
};

void expect_figures(const DeviceReport& of, const Expected& expected) {
  EXPECT_EQ(of.ops, expected.ops);
  EXPECT_EQ(of.whole.length, expected.span);
  std::array<Time, kParts> parts{};
  for (const auto& [part, time] : expected.parts) parts[static_cast<std::size_t>(part)] = time;
  for (std::size_t i = 0; i < kParts; ++i) {
    if (i == static_cast<std::size_t>(Part::kBusy)) continue;
    EXPECT_EQ(of.whole.of[i], parts[i]) << i;
  }
  EXPECT_EQ(of.whole.idle, expected.idle);
  Time idle = 0;
  for (const Time time : of.whole.idle) idle += time;
  EXPECT_EQ(idle, of.whole.length - of.whole[Part::kBusy]);
  EXPECT_NEAR(of.whole.oe(), expected.oe, 5e-5);
}

TEST(TraceOfRealGpus, CopiesFromPageableMemory) {
  const DeviceReport alexnet = real("alexnet_a100_pageable");
  expect_figures(alexnet,
                 {.ops = 98,
                  .span = 12'920'244'000,
                  .parts = {{Part::kCompute, 10'630'000},
                            {Part::kH2d, 55'503'000},
                            {Part::kMemset, 8'000},
                            {Part::kExposedH2d, 55'503'000},
                            {Part::kExposedCopies, 55'503'000},
                            {Part::kExposed, 55'503'000},
                            {Part::kSumCopies, 55'503'000},
                            {Part::kSumMemory, 8'000}},
                  .idle = {0, 2'314'000, 9'224'936'000, 568'780'000, 3'057'927'000, 146'000, 0, 0},
                  .oe = 0.0043});
  ASSERT_EQ(alexnet.copies.size(), 1U);
  EXPECT_EQ(alexnet.copies[0].memory, Memory::kPageable);
  EXPECT_NEAR(*alexnet.copies[0].rate(), 4.40e9, 5e6);
  EXPECT_FALSE(alexnet.what_if.at(3).best) << "no pinned copy tells how fast one is";
  EXPECT_EQ(real("alexnet_a100_pageable", {.link = 25e9}).what_if.at(3).best, 12'874'535'762);
}

TEST(TraceOfRealGpus, AStepAndAnEmptyOne) {
  const DeviceReport mi250 = real("mi250");
  expect_figures(mi250, {.ops = 16,
                         .span = 8'911'887,
                         .parts = {{Part::kCompute, 110'881},
                                   {Part::kH2d, 38'161},
                                   {Part::kExposedH2d, 38'161},
                                   {Part::kExposedCopies, 38'161},
                                   {Part::kExposed, 38'161},
                                   {Part::kSumCopies, 38'161}},
                         .idle = {0, 448'562, 2'425, 1'568'309, 6'651'230, 92'319, 0, 0},
                         .oe = 0.0124});
  ASSERT_EQ(mi250.copies.size(), 1U);
  EXPECT_EQ(mi250.copies[0].memory, Memory::kUnknown);
  EXPECT_FALSE(mi250.copies[0].rate()) << "none has 1 MiB";
  ASSERT_EQ(mi250.steps.all.size(), 2U);
  EXPECT_EQ(mi250.of_steps[0].length, 8'594'445);
  EXPECT_TRUE(mi250.steps.all[1].is_empty);
}

TEST(TraceOfRealGpus, CommunicationBesideCompute) {
  const DeviceReport nccl = real("nccl_a100_cut");
  expect_figures(nccl, {.ops = 3'774,
                        .span = 660'551'005,
                        .parts = {{Part::kCompute, 115'655'847},
                                  {Part::kComm, 46'876'493},
                                  {Part::kD2d, 2'262'781},
                                  {Part::kMemset, 390'717},
                                  {Part::kExposedComm, 39'559'468},
                                  {Part::kExposed, 39'559'468},
                                  {Part::kSumComm, 39'559'468},
                                  {Part::kSumMemory, 2'284'699}},
                        .idle = {0, 51'390, 4'567'978, 467'293'652, 25'466'542, 5'671'429, 0, 0},
                        .oe = 0.1751});
  ASSERT_EQ(nccl.steps.all.size(), 3U);
  EXPECT_EQ(nccl.steps.all[0].number, 4);
  EXPECT_EQ(nccl.of_steps[0].length, 222'054'811);
  EXPECT_EQ(nccl.of_steps[1].length, 219'732'155);
  EXPECT_EQ(nccl.of_steps[2].length, 218'764'039);
  EXPECT_TRUE(nccl.copies.empty());
}

TEST(TraceOfRealGpus, ATrainingStepWithPinnedCopiesAndCommunication) {
  const DeviceReport train = real("train_a100_cut");
  expect_figures(train,
                 {.ops = 9'450,
                  .span = 464'594'000,
                  .parts = {{Part::kCompute, 281'336'000},
                            {Part::kComm, 163'535'000},
                            {Part::kH2d, 50'656'000},
                            {Part::kD2h, 107'000},
                            {Part::kD2d, 2'735'000},
                            {Part::kMemset, 1'256'000},
                            {Part::kExposedComm, 87'921'000},
                            {Part::kExposedH2d, 16'769'000},
                            {Part::kExposedD2h, 63'000},
                            {Part::kExposedCopies, 16'832'000},
                            {Part::kExposed, 103'992'000},
                            {Part::kSumComm, 87'921'000},
                            {Part::kSumCopies, 16'071'000},
                            {Part::kSumMemory, 3'259'000}},
                  .idle = {349'000, 109'000, 1'935'000, 51'933'000, 10'951'000, 10'730'000, 0, 0},
                  .oe = 0.6056});
  std::vector<Time> steps;
  for (const Figures& step : train.of_steps) steps.push_back(step.length / 1'000);
  EXPECT_EQ(steps, (std::vector<Time>{75'530, 76'908, 76'271, 76'819, 78'434, 79'479}));
  EXPECT_EQ(train.steps.all.at(0).number, 1009);
  EXPECT_NEAR(train.mean.oe(), 0.6071, 5e-5);
  ASSERT_EQ(train.copies.size(), 2U);
  EXPECT_EQ(train.copies[0].memory, Memory::kPinned);
  EXPECT_NEAR(*train.copies[0].rate(), 8.59e9, 5e6);
  std::map<std::string, std::optional<Time>> best;  // of six steps
  for (const WhatIf& one : train.what_if) best[one.change] = one.best;
  EXPECT_EQ(best, (std::map<std::string, std::optional<Time>>{{"copies", 447'759'000},
                                                              {"comm", 375'520'000},
                                                              {"both", 360'599'000},
                                                              {"pinned", 463'441'000},
                                                              {"data", 463'092'000},
                                                              {"all", 360'250'000}}));
}

TEST(TraceOfRealGpus, APeriodOfTheKernelsIsAStep) {
  for (const auto& [name, kernels] :
       {std::pair("train_a100_cut", "1383"), {"nccl_a100_cut", "893"}}) {
    const DeviceReport by_ranges = real(name);
    Trace trace = read_events("tests/overlap/traces/" + std::string(name) + ".json.gz", {}, false);
    trace.ranges.clear();
    const DeviceReport by_period = analyze(trace, {}).devices.at(0);
    EXPECT_NE(by_period.steps.found_by.find(std::string("a period of ") + kernels),
              std::string::npos)
        << by_period.steps.found_by;
    ASSERT_EQ(by_period.of_steps.size(), by_ranges.of_steps.size());
    for (std::size_t i = 0; i < by_period.of_steps.size(); ++i)
      EXPECT_EQ(by_period.of_steps[i].length, by_ranges.of_steps[i].length);
  }
}

// Names of 300 kB, of bytes that a terminal obeys, and that end a script.
TEST(TraceOfRealGpus, NamesThatMeanHarmDoNone) {
  const leat::support::TemporaryDirectory folder;
  const std::filesystem::path file = folder.path() / "hostile.json";
  const std::string evil = R"(</script><script>alert(1)</script>\u001b[2J\n\u0000%n%s)";
  std::ofstream out(file);
  out << R"({"traceEvents":[)";
  for (int i = 0; i < 4; ++i) {
    out << R"({"ph":"X","cat":"kernel","name":")"
        << (i < 2 ? evil : std::string(300'000, i == 2 ? 'a' : '(')) << R"(","ts":)" << 10 * i
        << R"(,"dur":5,"pid":0,"tid":"\u001b7","args":{"correlation":)" << i + 1 << "}},\n"
        << R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#)" << i << evil << R"(","ts":)"
        << 10 * i << R"(,"dur":9,"pid":1,"tid":1},)"
        << R"({"ph":"X","cat":"cuda_runtime","name":")" << evil << R"(","ts":)" << 10 * i
        << R"(,"dur":1,"pid":1,"tid":1,"args":{"correlation":)" << i + 1 << "}},\n";
  }
  out << R"({"ph":"i"}]})";
  out.close();
  AnalysisOptions options;
  options.rules.comm = std::regex("(a)*b");
  options.rules.step = std::regex("Step.*script");
  const std::vector<TraceReport> reports = {
      analyze(read_events(file, options.rules, false), options)};
  ASSERT_EQ(reports[0].devices.size(), 1U);
  EXPECT_EQ(reports[0].devices[0].steps.measured, 4U);
  for (const char c : text_report(reports)) {
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ');
  }
  const nlohmann::json json = nlohmann::json::parse(json_report("leat-overlap", reports));
  EXPECT_EQ(json.at("traces")[0].at("devices")[0].at("ops"), 4);
  EXPECT_NE(csv_report(reports).find("</script>"), std::string::npos) << "as it is, in quotes";
}

}  // namespace trace_real_test
}  // namespace overlap::trace
