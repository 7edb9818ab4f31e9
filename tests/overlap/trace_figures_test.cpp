// What leat-overlap trace makes of ops, calls and ranges: its definitions one by one, by small
// traces whose figures are added up by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "leat/overlap/trace/figures/analysis.h"
#include "leat/overlap/trace/figures/parts.h"
#include "leat/overlap/trace/figures/steps.h"
#include "leat/overlap/trace/model.h"
#include "tests/overlap/made_trace.h"

namespace overlap::trace {
namespace trace_figures_test {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// By Cause, and nothing else.
void expect_idle(const Figures& of, const std::vector<std::pair<Cause, Time>>& expected) {
  std::array<Time, kCauses> all{};
  for (const auto& [cause, time] : expected) all[static_cast<std::size_t>(cause)] = time;
  for (std::size_t i = 0; i < kCauses; ++i) {
    EXPECT_EQ(of.idle[i], all[i]) << name_of(static_cast<Cause>(i));
  }
}

std::optional<Time> best(const DeviceReport& of, const std::string& change) {
  for (const WhatIf& one : of.what_if) {
    if (one.change == change) return one.best;
  }
  ADD_FAILURE() << "no what-if " << change;
  return std::nullopt;
}

TEST(TraceFigures, EachPartOfTheSumIsOutsideThoseBeforeIt) {
  Made made;
  made.op(Kind::kCompute, 0, 10);
  made.op(Kind::kCompute, 2, 9, {.stream = "8"});  // within the first
  made.op(Kind::kComm, 5, 15);
  made.op(Kind::kH2d, 12, 20);
  made.op(Kind::kD2h, 8, 22);
  made.op(Kind::kD2d, 21, 25);
  made.op(Kind::kMemset, 24, 26);
  made.op(Kind::kOther, 1, 30);
  made.op(Kind::kCompute, 33, 34);
  const Figures whole = made.device().whole;
  EXPECT_EQ(whole.length, 34);
  EXPECT_EQ(whole[Part::kCompute], 11);
  EXPECT_EQ(whole[Part::kComm], 10);
  EXPECT_EQ(whole[Part::kExposedComm], 5);
  EXPECT_EQ(whole[Part::kExposedH2d], 8);
  EXPECT_EQ(whole[Part::kExposedD2h], 12);
  EXPECT_EQ(whole[Part::kExposedCopies], 12) << "10 to 22";
  EXPECT_EQ(whole[Part::kExposed], 12);
  EXPECT_EQ(whole[Part::kSumComm], 5);
  EXPECT_EQ(whole[Part::kSumCopies], 7) << "15 to 22";
  EXPECT_EQ(whole[Part::kSumMemory], 4) << "22 to 26";
  EXPECT_EQ(whole[Part::kSumOther], 4) << "26 to 30";
  EXPECT_EQ(whole.length - whole[Part::kBusy], 3);
  EXPECT_EQ(whole.longest(), Kind::kD2h);
  EXPECT_DOUBLE_EQ(whole.oe(), 14.0 / 34);
}

TEST(TraceFigures, IdleTimeGoesToTheFirstCauseThatHolds) {
  Made made;
  made.op(Kind::kCompute, 0, 10);
  made.range("enumerate(DataLoader)#_Iter.__next__", 20, 30, {1, 2});  // of any thread
  made.range("enumerate(DataLoader)#_Iter.__next__", 10, 99, {2, 2});  // of another process
  made.call("cudaStreamSynchronize", 25, 40);
  made.call("cudaMalloc", 22, 50);
  made.call("cudaFree", 0, 99, 0, {1, 2});  // of another thread
  made.call("cudaLaunchKernel", 60, 80, 5);
  made.op(Kind::kCompute, 100, 101, {.call = 5});
  const DeviceReport report = made.device();
  expect_idle(report.whole, {{Cause::kData, 10},
                             {Cause::kSync, 10},
                             {Cause::kCalls, 10},
                             {Cause::kHost, 20},
                             {Cause::kLaunching, 20},
                             {Cause::kNotStarted, 20}});
  ASSERT_EQ(report.calls.size(), 1U);
  EXPECT_EQ(report.calls[0].name, "cudaMalloc");
  EXPECT_EQ(report.calls[0].time, 10);
}

TEST(TraceFigures, TheHostAfterASyncThatDrainedTheQueueIsSync) {
  for (const Time begin : {5, 11}) {
    Made made;
    made.op(Kind::kCompute, 0, 10);
    made.call("cudaDeviceSynchronize", begin, 15);
    made.call("cudaMalloc", 15, 18);
    made.launched(50, 50, 51);
    const Figures whole = made.device().whole;
    EXPECT_EQ(whole[Cause::kCalls], 3);
    EXPECT_EQ(whole[Cause::kSync], begin == 5 ? 37 : 4);
    EXPECT_EQ(whole[Cause::kHost], begin == 5 ? 0 : 33);
  }
}

TEST(TraceFigures, BeforeTheFirstOpThereIsNothingToDrain) {
  Made made;
  made.call("cudaDeviceSynchronize", 1, 3);
  made.op(Kind::kCompute, 2, 2);  // takes no time
  made.launched(20, 30, 40);
  expect_idle(made.device().whole,
              {{Cause::kSync, 1}, {Cause::kHost, 17}, {Cause::kNotStarted, 10}});
}

TEST(TraceFigures, AGapIsOfTheOpCalledFirstOfThoseThatEndIt) {
  Made made;
  made.op(Kind::kCompute, 0, 10);
  made.call("cudaLaunchKernel", 30, 35, 1);
  made.call("cudaLaunchKernel", 20, 24, 2);
  made.call("cudaLaunchKernel", 12, 13, 3);
  made.call("cudaLaunchKernel", 8, 50, 2);  // earlier, with the same number: it counts
  made.op(Kind::kCompute, 40, 50, {.call = 1});
  made.op(Kind::kCompute, 40, 50);  // none tells what called it
  made.op(Kind::kCompute, 40, 50, {.call = 2});
  made.op(Kind::kCompute, 40, 40, {.call = 3});  // takes no time
  made.op(Kind::kCompute, 60, 70);
  expect_idle(made.device().whole, {{Cause::kLaunching, 30}, {Cause::kUnknown, 10}});
}

TEST(TraceFigures, StepsOfTheHostCutGapsAndHaveATail) {
  Made made;
  made.launched(1, 2, 10);
  made.launched(60, 80, 90);
  made.range("ProfilerStep#3", 0, 50);
  made.range("ProfilerStep#4", 50, 120);
  made.range("ProfilerStep#5", 120, 130);
  const DeviceReport report = made.device({.steps = {.by_host = true}});
  ASSERT_EQ(report.of_steps.size(), 3U);
  expect_idle(report.of_steps[0], {{Cause::kHost, 41}, {Cause::kNotStarted, 1}});
  expect_idle(report.of_steps[1],
              {{Cause::kHost, 10}, {Cause::kNotStarted, 20}, {Cause::kTail, 30}});
  EXPECT_TRUE(report.steps.all[2].is_empty);
  EXPECT_EQ(report.steps_in_mean, 2U);
  EXPECT_EQ(report.mean.length, 120);
}

TEST(TraceFigures, StepsOfTheDeviceRunFromKernelToKernel) {
  Made made;
  made.call("cudaMemcpyAsync", 5, 6, 1);
  made.op(Kind::kH2d, 8, 12, {.call = 1});  // before the first kernel: outside
  made.launched(7, 20, 30);
  made.launched(55, 70, 80);
  made.call("cudaMemcpyAsync", 120, 121, 2);
  made.op(Kind::kD2h, 125, 140, {.call = 2});
  made.launched(160, 170, 180);
  made.call("cudaMemcpyAsync", 165, 166, 3);
  made.op(Kind::kD2h, 180, 200, {.call = 3});
  made.launched(300, 310, 320);  // in no range
  made.range("ProfilerStep#1", 0, 40);
  made.range("ProfilerStep#2", 50, 60);    // reaches to 100
  made.range("ProfilerStep#3", 100, 150);  // no kernel
  made.range("ProfilerStep#4", 150, 170);
  made.range("ProfilerStep#5", 170, 250);  // nothing
  const DeviceReport report = made.device();
  EXPECT_FALSE(report.steps.is_by_host);
  ASSERT_EQ(report.steps.all.size(), 5U);
  EXPECT_EQ(report.of_steps[0].length, 50);
  EXPECT_EQ(report.of_steps[1].length, 100) << "to the next that has a kernel";
  EXPECT_TRUE(report.steps.all[2].is_empty);
  EXPECT_EQ(report.of_steps[3].length, 30) << "to the latest end";
  EXPECT_TRUE(report.steps.all[4].is_empty);
  EXPECT_EQ(report.steps.ops_outside, 2U);
  EXPECT_EQ(report.steps_in_mean, 3U);
  EXPECT_EQ(report.mean.length, 180);
  EXPECT_EQ(report.mean[Part::kCompute], 30);
  EXPECT_EQ(report.steps.lead, (20 + 20 + 20) / 3);
}

Made out_of_order() {
  Made made;
  made.launched(5, 40, 50);
  made.launched(15, 20, 30);
  made.range("ProfilerStep#8", 0, 10);
  made.range("ProfilerStep#9", 10, 60);
  return made;
}

TEST(TraceFigures, StepsOutOfOrderOnTheDeviceAreThoseOfTheHost) {
  const DeviceReport report = out_of_order().device();
  EXPECT_TRUE(report.steps.is_by_host);
  EXPECT_EQ(report.of_steps[1].length, 50);
  const DeviceReport one = out_of_order().device({.steps = {.only = std::pair(9, 9)}});
  EXPECT_EQ(one.steps.all.size(), 1U);
  EXPECT_EQ(one.mean.length, 50);
}

TEST(TraceFigures, TheMeanStepIsOfTheMeasuredOnesAlone) {
  const auto report = [](const StepOptions& steps) {
    Made made;
    for (const int i : {0, 1, 3}) made.launched(i * 100 + 5, i * 100 + 10, i * 100 + 50);
    for (int i = 0; i < 4; ++i) {
      made.range("ProfilerStep#" + std::to_string(i % 3), i * 100, i * 100 + 100);
    }
    return made.device({.steps = steps});
  };
  const DeviceReport all = report({.by_host = true, .only = {}});
  EXPECT_EQ(all.steps_in_mean, 3U) << "one has no op";
  EXPECT_EQ(all.mean.length, 300);
  const DeviceReport zeros = report({.by_host = true, .only = std::pair(0, 0)});
  EXPECT_EQ(zeros.mean.length, 200) << "numbers that come again are apart";
  EXPECT_EQ(zeros.mean[Part::kCompute], 80);
}

TEST(TraceFigures, StepsOfADeviceAreOfTheThreadThatFeedsIt) {
  Made made;
  for (int i = 0; i < 3; ++i) {
    made.launched(i * 100 + 5, i * 100 + 10, i * 100 + 50);
    made.range("ProfilerStep#" + std::to_string(i), i * 100, i * 100 + 100);
    made.range("ProfilerStep#" + std::to_string(i), i * 100 + 40, i * 100 + 140, {1, 2});
  }
  EXPECT_EQ(made.device().steps.measured, 3U);
}

TEST(TraceFigures, ALoadersCountedRangesAreNoSteps) {
  Made made;
  made.format("Nsight Systems");
  for (int i = 0; i < 9; ++i) {
    made.range("load batch " + std::to_string(i), 100 * i - 60, 100 * i - 10, {1, 2});
    if (i > 5) continue;
    made.range("step " + std::to_string(i), 100 * i, 100 * i + 90);
    made.launched(100 * i + 5, 100 * i + 10, 100 * i + 50);
  }
  const DeviceReport nvtx = made.device();
  EXPECT_EQ(nvtx.steps.found_by, "ranges \"step N\"");
  EXPECT_EQ(nvtx.steps.measured, 6U);
}

TEST(TraceFigures, StepsAreRangesThatAreAskedForOrCounted) {
  const auto made = [](const char* format) {
    Made all;
    for (int i = 0; i < 3; ++i) {
      all.range("epoch 1 batch " + std::to_string(i), i * 100, i * 100 + 90);
      all.range("fold " + std::to_string(i % 2), i * 100, i * 100 + 50);
      all.launched(i * 100 + 1, i * 100 + 2, i * 100 + 3 + i);
    }
    all.format(format);
    return all;
  };
  const DeviceReport nvtx = made("Nsight Systems").device();
  EXPECT_EQ(nvtx.steps.measured, 3U);
  EXPECT_EQ(nvtx.steps.all[2].number, 2);
  EXPECT_EQ(made("PyTorch profiler").device().steps.all[0].name, "period 0")
      << "annotations are steps where they are asked for";
  AnalysisOptions fold;
  fold.rules.step = std::regex("^fold [0-9]");
  EXPECT_EQ(made("PyTorch profiler").device(fold).steps.measured, 3U);
  fold.rules.step = std::regex("nothing");
  EXPECT_THROW(static_cast<void>(made("Nsight Systems").device(fold)), std::invalid_argument);
}

TEST(TraceFigures, WithoutRangesStepsAreThePeriodOfTheKernels) {
  Made made;
  for (int i = 0; i < 7; ++i) {
    made.op(Kind::kCompute, 100 * i, 100 * i + (i == 5 ? 250 : 10),
            {.name = i % 2 == 0 ? "a" : "b"});
  }
  made.op(Kind::kCompute, 1, 2, {.name = "c", .stream = "8"});
  const DeviceReport report = made.device();
  EXPECT_NE(report.steps.found_by.find("period of 2 kernels"), std::string::npos);
  EXPECT_NE(report.steps.found_by.find("layer"), std::string::npos);
  ASSERT_EQ(report.steps.all.size(), 3U);
  EXPECT_EQ(report.of_steps[0].length, 200);
  EXPECT_EQ(report.of_steps[2].length, 350) << "to the latest end of its kernels";
}

TEST(TraceFigures, ThePeriodIsTheSmallestLagAtWhich99PercentAgree) {
  const auto values = [](std::size_t count, std::uint32_t period) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t i = 0; i < count; ++i) all.push_back(i % period);
    return all;
  };
  EXPECT_EQ(period_of(values(12, 4)), 4U);
  EXPECT_EQ(period_of(values(11, 4)), 0U) << "fewer than three";
  EXPECT_EQ(period_of({}), 0U);
  EXPECT_EQ(period_of({7, 7, 7}), 1U);
  std::vector<std::uint32_t> noisy = values(204, 4);
  noisy[100] = 9;  // two of 200 pairs differ
  EXPECT_EQ(period_of(noisy), 4U);
  noisy[3] = 9;  // a third
  EXPECT_EQ(period_of(noisy), 0U);
  // Where pairs differ at the end alone, and where they agree but for a little more than 1 %.
  std::vector<std::uint32_t> late(30'000, 1);
  for (std::uint32_t i = 29'000; i < 30'000; ++i) late[i] = i;
  EXPECT_EQ(period_of(late), 0U);
}

TEST(TraceFigures, WhatAChangeGivesIsBetweenALimitAndToday) {
  Made made;
  made.op(Kind::kH2d, 0, 4'000, {.bytes = 4 * kMiB, .memory = Memory::kPageable});
  made.op(Kind::kH2d, 4'000, 4'500, {.bytes = 1000, .memory = Memory::kPageable});  // too small
  made.op(Kind::kComm, 4'400, 5'000);
  made.op(Kind::kCompute, 5'000, 8'000, {.call = 1});
  made.range("enumerate(DataLoader)#_Iter.__next__", 8'000, 8'700);
  made.call("cudaLaunchKernel", 8'700, 8'800, 2);
  made.op(Kind::kCompute, 9'000, 10'000, {.call = 2});
  const DeviceReport of = made.device({.link = 8 * 0x1p20 / 4e-6});
  EXPECT_EQ(best(of, "copies"), 5'500);
  EXPECT_EQ(best(of, "comm"), 9'400);
  EXPECT_EQ(best(of, "both"), 5'000);
  EXPECT_EQ(best(of, "data"), 9'300);
  EXPECT_EQ(best(of, "all"), 4'500) << "the copies themselves";
  EXPECT_EQ(best(of, "pinned"), 8'000) << "4 MiB in 2 us";
}

TEST(TraceFigures, NothingIsPromisedWhereTheMemoryIsUnknown) {
  Made made;
  made.op(Kind::kH2d, 0, 1'000, {.bytes = kMiB, .memory = Memory::kUnknown});
  EXPECT_EQ(best(made.device({.link = 1e12}), "pinned"), std::nullopt);
}

TEST(TraceFigures, PinnedCopiesOfTheTraceTellWhatPinningGives) {
  const auto made = [](bool with_pinned) {
    Made all;
    all.op(Kind::kD2h, 0, 4'000, {.bytes = 2 * kMiB, .memory = Memory::kPageable});
    if (with_pinned) all.op(Kind::kD2h, 5'000, 6'000, {.bytes = kMiB, .memory = Memory::kPinned});
    all.op(Kind::kH2d, 5'000, 6'000, {.bytes = 8 * kMiB, .memory = Memory::kPinned});
    all.op(Kind::kCompute, 6'000, 7'000);
    return all;
  };
  EXPECT_EQ(best(made(true).device({.link = 1e15}), "pinned"), 5'000);
  EXPECT_FALSE(best(made(false).device(), "pinned")) << "another direction's tells nothing";
}

TEST(TraceFigures, TheStragglerIsTheRankThatWorksLongestOutsideCommunication) {
  Made made;
  for (const std::int64_t device : {0, 1, 2}) {
    made.op(Kind::kCompute, 0, 400 + 100 * device, {.device = device});
    made.op(Kind::kComm, 400 + 100 * device, 1000, {.device = device});
  }
  const std::vector<TraceReport> ranks = {made.report()};
  const std::optional<Straggler> found = straggler(ranks);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->device, 2U);
  EXPECT_EQ(found->others_wait, 150);
}

TEST(TraceFigures, OddOpsAreCounted) {
  Made made;
  made.op(Kind::kCompute, 0, 10, {.name = "a"});
  made.op(Kind::kCompute, 0, 5, {.name = "b"});
  made.op(Kind::kCompute, 0, 10, {.name = "a"});  // not right behind its equal
  made.op(Kind::kCompute, 0, 10, {.name = "a", .stream = "8"});
  made.launched(30, 20, 25);
  const Odd odd = made.device().odd;
  EXPECT_EQ(odd.equal, 1U);
  EXPECT_EQ(odd.overlap_in_stream, 2U);
  EXPECT_EQ(odd.before_launch, 1U);
}

}  // namespace trace_figures_test
}  // namespace overlap::trace
