// What is shown of a measurement in which no two figures are alike: every column has its own.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "leat/overlap/figure.h"
#include "leat/overlap/html.h"
#include "leat/overlap/json.h"
#include "leat/overlap/measure.h"
#include "leat/overlap/shape.h"
#include "leat/overlap/sweep.h"
#include "leat/overlap/table.h"

namespace overlap {
namespace report_test {

using namespace std::chrono_literals;

constexpr double kRounding = 1e-12;

// Two ranks, of which the second is the slower.
Measurement made_up() {
  Measurement made;
  made.shape.name = "made up";
  made.shape.batch_size = 4;
  made.shape.sample_bytes = 250'000;
  made.shape.tensors = 2;
  made.shape.prefetch_depth = 3;
  made.shape.workers = 5;
  made.shape.max_pinned_bytes = 12'000'000;
  made.device = "host:7";
  made.description = "a device";
  made.compute = "nothing much";
  made.devices = 2;
  made.steps = 100;
  made.link_peak = 2e9;
  made.t_x_alone = 1.1e-3;
  made.t_c_alone = 2.5e-3;
  made.t_replay = 2.9e-3;
  made.t_serial = 7.2e-3;
  made.cpu_seconds = 0.3;
  made.fed_bytes = 2e8;
  made.pinned_bytes = 11'000'000;
  made.device_bytes = 7'000'000;
  for (const auto& [t_step, t_c] : {std::pair(3.6e-3, 2.52e-3), std::pair(4e-3, 3e-3)}) {
    RankResult fed;
    fed.t_step = t_step;
    fed.stats.workers = 5;
    fed.stats.devices = 2;
    fed.stats.device_slots = 3;
    fed.stats.pinned_slots = 6;
    fed.stats.sampled_steps = 98;
    fed.stats.timed_copies = 97;
    fed.stats.batch_bytes = 1e6;
    fed.stats.t_read = 8e-3;
    fed.stats.t_x = 1.25e-3;
    fed.stats.t_c = t_c;
    fed.stats.t_step = 4.1e-3;  // of the sampled steps
    fed.stats.step = {.p50 = 3.9e-3, .p99 = 4.6e-3};
    fed.stats.bubble = {.p50 = 0.95e-3, .p99 = 1.7e-3};
    fed.stats.reader = {.busy = 0.8, .starved = 0.05, .blocked = 0.15};
    fed.stats.copier = {.busy = 0.31, .starved = 0.29, .blocked = 0.4};
    fed.stats.consumer = {.busy = 0.75, .starved = 0.23, .blocked = 0.02};
    made.ranks.push_back(fed);
  }
  return made;
}

TEST(Report, EveryFigureIsItsFormula) {
  const Measurement made = made_up();
  EXPECT_EQ(&made.slowest(), &made.ranks[1]);
  EXPECT_NEAR(made.overlap_efficiency(), 3.0 / 4, kRounding);
  EXPECT_NEAR(Measurement::overlap_efficiency(made.ranks[0]), 2.52 / 3.6, kRounding);
  EXPECT_NEAR(made.feed_efficiency(), 8.0 * 2 / 5 / 4, kRounding);
  EXPECT_NEAR(made.hidden_fraction(), (3 + 1.25 - 4) / 1.25, kRounding);
  EXPECT_NEAR(made.interference(), 3 / 2.5, kRounding);
  EXPECT_NEAR(made.link_efficiency(), 1e6 / 1.25e-3 / 2e9, kRounding);
  EXPECT_NEAR(made.accelerator_utilization(), 2.5 / 4, kRounding);
  EXPECT_NEAR(made.speed_up(), 7.2 / 4, kRounding);
  EXPECT_NEAR(made.headspace(), 4 / 2.9 - 1, kRounding);
  EXPECT_NEAR(made.core_seconds_per_gb(), 0.3 / 0.2, kRounding);
}

TEST(Report, TheTableHasEachInItsPlace) {
  const std::string text = run_table(made_up());
  EXPECT_EQ(text, R"(2 devices from host:7 (a device)
made up: batches of 1.00 MB (4 samples, 2 tensors), depth 3, 5 workers; 100 steps of nothing much

  No stage is saturated (the busiest takes 78.0 % of the step): the time goes
  into waiting for each other; a larger prefetch_depth or more CPUs may help.
  reader     works 80.0 % of the step, waits 5.0 %, is ahead 15.0 %
  copier     works 31.0 %, waits 29.0 %, is ahead 40.0 %
  consumer   works 75.0 %, waits 23.0 %, does other things 2.0 %

          alone        in the loop
  Tread                8.00 ms
  Tx      1.10 ms      1.25 ms      link efficiency 0.400 of 2.00 GB/s
  Tc      2.50 ms      3.00 ms      interference 1.200
  Tstep                4.00 ms      mean of 100; p99 4.60 ms
  bubble               1.00 ms      mean; p99 1.70 ms

  OE 0.750   hidden 20.0 %   feed efficiency 0.800   AU 62.5 %
  the serial loop takes 7.20 ms a step, 1.80 times as long
  without any feeding a step takes 2.90 ms: headspace 37.9 %
  1.50 core-seconds per GB; pinned memory 11.0 MB of at most 12.0 MB, device memory 7.00 MB each
  rank 0: Tstep 3.60 ms, OE 0.700
  rank 1: Tstep 4.00 ms, OE 0.750
)");
}

TEST(Report, JsonHasEachUnderItsName) {
  const Provenance from{.command = "leat-overlap --x", .machine = "a machine", .date = "today"};
  const nlohmann::json all = nlohmann::json::parse(json_report(from, {made_up()}, nullptr));
  EXPECT_EQ(all.at("command"), "leat-overlap --x");
  const nlohmann::json& run = all.at("runs").at(0);
  const std::vector<std::pair<const char*, double>> figures = {{"link_peak", 2e9},
                                                               {"t_x_alone", 1.1e-3},
                                                               {"t_c_alone", 2.5e-3},
                                                               {"t_replay", 2.9e-3},
                                                               {"t_serial", 7.2e-3},
                                                               {"t_step", 4e-3},
                                                               {"overlap_efficiency", 0.75},
                                                               {"feed_efficiency", 0.8},
                                                               {"hidden_fraction", 0.2},
                                                               {"interference", 1.2},
                                                               {"link_efficiency", 0.4},
                                                               {"accelerator_utilization", 0.625},
                                                               {"speed_up", 1.8},
                                                               {"headspace", 4 / 2.9 - 1},
                                                               {"core_seconds_per_gb", 1.5},
                                                               {"pinned_bytes", 11e6},
                                                               {"device_bytes", 7e6}};
  for (const auto& [name, value] : figures) {
    EXPECT_NEAR(run.at(name).get<double>(), value, kRounding * value) << name;
  }
  const nlohmann::json& rank = run.at("ranks").at(0);
  EXPECT_EQ(rank.at("step").at("p50"), 3.9e-3);
  EXPECT_EQ(rank.at("step").at("p99"), 4.6e-3);
  EXPECT_EQ(rank.at("bubble").at("p50"), 0.95e-3);
  EXPECT_EQ(rank.at("bubble").at("p99"), 1.7e-3);
  EXPECT_EQ(rank.at("copier").at("busy"), 0.31);
  EXPECT_EQ(rank.at("copier").at("starved"), 0.29);
  EXPECT_EQ(rank.at("copier").at("blocked"), 0.4);
  EXPECT_NEAR(rank.at("overlap_efficiency").get<double>(), 0.7, kRounding);
}

TEST(Report, WhatTakesNoTimeIsNotDividedBy) {
  Measurement made = made_up();
  made.t_c_alone = made.t_replay = made.link_peak = 0;
  for (RankResult& fed : made.ranks) {
    fed.t_step = 0;
    fed.stats.t_c = fed.stats.t_x = 0;
  }
  const std::string text = run_table(made);
  for (const char* const part :
       {"interference ?", "OE ?", "AU ?", "headspace ?", "? times as long", "link efficiency ?"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
}

// One event of a trace, in microseconds.
std::string span(const char* kind, int batch, int process, int track, int begin, int length) {
  return std::string(R"({"ph":"X","name":")") + kind + " " + std::to_string(batch) + R"(","pid":)" +
         std::to_string(process) + R"(,"tid":)" + std::to_string(track) + R"(,"ts":)" +
         std::to_string(begin) + R"(,"dur":)" + std::to_string(length) + R"(,"args":{"batch":)" +
         std::to_string(batch) + "}},";
}

std::string named(const char* what, const char* name, int process, int track) {
  return std::string(R"({"ph":"M","name":")") + what + R"(","pid":)" + std::to_string(process) +
         R"(,"tid":)" + std::to_string(track) + R"(,"args":{"name":")" + name + "\"}},";
}

std::string rect(const char* x, const char* y, const char* width, const char* height,
                 const char* fill, const char* title) {
  return std::string("<rect x=\"") + x + "\" y=\"" + y + "\" width=\"" + width + "\" height=\"" +
         height + "\" rx=\"2\" style=\"fill: " + fill + "\"><title>" + title;
}

TEST(Report, ATimelineIsDrawnToScale) {
  std::string events = named("process_name", "host", 1, 0) +
                       named("process_name", "rank 0: host:7", 10, 0) +
                       named("thread_name", "reader 0", 1, 1) +
                       named("thread_name", "copies", 10, 1) + named("thread_name", "work", 10, 2);
  for (int i = 0; i < 10; ++i) events += span("use", i, 10, 2, 1000 * i, 1000);
  events += span("copy", 33, 10, 1, 2250, 500) + span("read", 44, 1, 1, 2500, 250) +
            span("read", 45, 1, 1, 8000, 250);
  events.pop_back();
  Measurement made = made_up();
  made.ranks.pop_back();
  made.ranks[0].t_step = 1e-3;
  made.trace = R"({"traceEvents":[)" + events + "]}";

  // 5 of 10 steps, from the third on; a millisecond is 142 wide.
  const std::string drawn = timelines_svg({&made});
  for (const std::string& part : std::vector<std::string>{
           rect("190.0", "74.0", "142.0", "20.0", "var(--use)", "use 2: 1.00 ms"),
           rect("758.0", "74.0", "142.0", "20.0", "var(--use)", "use 6: 1.00 ms"),
           rect("225.5", "48.0", "71.0", "20.0", "var(--copy)", "copy 33: 500 us"),
           rect("261.0", "22.0", "35.5", "20.0", "var(--read)", "read 44: 250 us"),
           std::string(">reader 0</text>"), std::string(">host:7: copies</text>"),
           std::string(">host:7: work</text>"), std::string(">5.00 ms</text>")}) {
    EXPECT_NE(drawn.find(part), std::string::npos) << part << " is not in\n" << drawn;
  }
  EXPECT_EQ(drawn.find("read 45"), std::string::npos) << drawn;
  EXPECT_EQ(drawn.find("use 1:"), std::string::npos) << drawn;
  EXPECT_EQ(drawn.find("use 7:"), std::string::npos) << drawn;
}

TEST(Report, AHeatMapsColourAndPlaceSayWhatItsCellMeasured) {
  Sweep sweep;
  const auto add = [&](std::size_t depth, leat::Duration step, double ratio, double t_step) {
    SweepCell cell{
        .ratio = ratio, .step = step, .depth = depth, .result = made_up(), .why_not = {}};
    for (RankResult& fed : cell.result->ranks) fed.t_step = t_step;  // Tc is 2.52 and 3 ms
    sweep.cells.push_back(cell);
  };
  add(1, 500us, 0.1, 2.52e-3 * 2);
  add(1, 1ms, 0.5, 2.52e-3);
  add(2, 300ms, 2, 2.52e-3 * 4 / 3);
  const std::string drawn = heat_maps_svg(sweep);
  // Columns are 62.33 wide, from 62 on, rows 26 high, from 40 on; the second map is at 464.
  for (const std::string& part : std::vector<std::string>{
           rect("63.0", "41.0", "60.3", "24.0", "rgb(184, 84, 32)", "Tstep 5.04 ms. "),
           rect("125.3", "67.0", "60.3", "24.0", "rgb(22, 104, 142)", "Tstep 2.52 ms. "),
           rect("838.7", "145.0", "60.3", "24.0", "rgb(103, 94, 87)", "Tstep 3.36 ms. "),
           std::string(">0.500</text>"), std::string(">1.000</text>"),
           std::string(">0.750</text>")}) {
    EXPECT_NE(drawn.find(part), std::string::npos) << part << " is not in\n" << drawn;
  }
}

TEST(Report, NamesOfFilesMaySayAnything) {
  const Provenance from{.command = "leat-overlap --data \xff<&>@DATA@<!--@FIGURES@--></script>",
                        .machine = "m",
                        .date = "d"};
  Measurement made = made_up();
  made.shape.name = "records of /*@PALETTE@*/ </title><rect";
  made.trace =
      R"({"traceEvents":[)" + span("use", 0, 10, 2, 0, 1000) + R"({"ph":"i","name":"x","pid":1}]})";
  const std::string page = html_report(from, {made}, nullptr);
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t data = page.find(begin) + begin.size();
  const nlohmann::json read =
      nlohmann::json::parse(page.substr(data, page.find("</script>", data) - data));
  EXPECT_EQ(read.at("command"),
            "leat-overlap --data \xEF\xBF\xBD<&>@DATA@<!--@FIGURES@--></script>");
  const std::string drawn = svg_figure(from, {made}, nullptr);
  EXPECT_NE(drawn.find("--data \xEF\xBF\xBD&lt;&amp;&gt;@DATA@"), std::string::npos) << drawn;
  EXPECT_EQ(drawn.find("</title><rect,"), std::string::npos);
}

TEST(Report, TheShapesOfMlperfStorageAreThose) {
  const std::vector<Shape>& shapes = mlperf_shapes();
  ASSERT_EQ(shapes.size(), 3U);
  EXPECT_EQ(shapes[0].name, "unet3d");
  EXPECT_NEAR(static_cast<double>(shapes[0].batch_bytes()), 7 * 146.6e6, 7 * 0.05e6);
  EXPECT_EQ(shapes[0].batch_size, 7U);
  EXPECT_EQ(shapes[0].t_c, 323ms);
  EXPECT_EQ(shapes[1].name, "resnet50");
  EXPECT_NEAR(static_cast<double>(shapes[1].batch_bytes()), 400 * 114.7e3, 400 * 0.05e3);
  EXPECT_EQ(shapes[1].batch_size, 400U);
  EXPECT_EQ(shapes[1].t_c, 224ms);
  EXPECT_EQ(shapes[2].name, "cosmoflow");
  EXPECT_NEAR(static_cast<double>(shapes[2].batch_bytes()), 2.83e6, 0.005e6);
  EXPECT_EQ(shapes[2].batch_size, 1U);
  EXPECT_EQ(shapes[2].t_c, 3500us);
}

TEST(Report, ReadingVariesAsAskedFor) {
  Shape shape;
  shape.t_read = 1ms;
  shape.straggler_every = 4;
  shape.straggler_factor = 7;
  EXPECT_EQ(read_time(shape, 0), 1ms);
  EXPECT_EQ(read_time(shape, 3), 7ms);
  EXPECT_EQ(read_time(shape, 4), 1ms);

  // Lognormal of mean 1: ln has the mean -sigma^2 / 2.
  shape.straggler_every = 0;
  shape.jitter = 0.5;
  constexpr std::uint64_t kMany = 40'000;
  double sum = 0;
  double logs = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const double factor = std::chrono::duration<double, std::milli>(read_time(shape, i)).count();
    sum += factor;
    logs += std::log(factor);
    squares += std::log(factor) * std::log(factor);
  }
  const double mean = logs / kMany;
  EXPECT_NEAR(sum / kMany, 1, 0.015);  // 5 standard errors
  EXPECT_NEAR(mean, -0.125, 0.0125);
  EXPECT_NEAR(std::sqrt(squares / kMany - mean * mean), 0.5, 0.01);
}

}  // namespace report_test
}  // namespace overlap
