// The timeline for Perfetto: every action in its time, and an arrow for each transfer.
#include "leat/pipeline/schedule/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "leat/pipeline/check.h"
#include "leat/pipeline/kinds.h"
#include "leat/pipeline/schedule/table.h"
#include "leat/pipeline/text.h"

namespace schedule_program {
namespace timeline_test {

using namespace leat::pipeline;

struct Event {
  std::string name;
  double begin = 0;
  double end = 0;
};
using Track = std::pair<int, int>;

struct Parsed {
  std::map<Track, std::string> names;
  std::map<Track, std::vector<Event>> spans;
  std::map<int, std::vector<Json>> arrows;
  std::map<int, int> peaks;  // of the counters
};

Parsed parsed(const std::string& text) {
  Parsed all;
  const Json trace = Json::parse(text);
  for (const Json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    const int process = event.at("pid");
    if (phase == "M" && event.at("name") == "thread_name") {
      all.names[{process, event.at("tid")}] = event.at("args").at("name");
    } else if (phase == "X") {
      const double begin = event.at("ts");
      all.spans[{process, event.at("tid")}].push_back(
          {event.at("name"), begin, begin + event.at("dur").get<double>()});
    } else if (phase == "C") {
      all.peaks[process] = std::max(all.peaks[process], event.at("args").at("live").get<int>());
    } else if (phase == "s" || phase == "f") {
      all.arrows[event.at("id")].push_back(event);
    }
  }
  return all;
}

// The span in which an arrow's end lies, not at its begin or end.
std::string under(const Parsed& all, const Json& end) {
  for (const Event& span : all.spans.at({end.at("pid"), end.at("tid")})) {
    if (span.begin < end.at("ts") && end.at("ts") < span.end) return span.name;
  }
  return "";
}

TEST(ScheduleTimeline, EverySpanIsInItsTimeInMicroseconds) {
  const Schedule order = make(Kind::kZeroBubble, {.ranks = 2, .microbatches = 4});
  const Simulation simulation = simulate(order, {.link = 3});
  const Parsed all = parsed(timeline_json(simulation));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    std::multiset<std::tuple<std::string, double, double>> wanted;
    std::multiset<std::tuple<std::string, double, double>> found;
    for (const Span& span : simulation.spans[rank]) {
      wanted.emplace(to_string(span.action), span.begin, span.end);
    }
    for (const auto& [track, spans] : all.spans) {
      if (track.first != static_cast<int>(rank)) continue;
      for (const Event& one : spans) found.emplace(one.name, one.begin, one.end);
    }
    EXPECT_EQ(found, wanted);
    EXPECT_EQ(all.names.at({rank, 1}), "computes");
    EXPECT_EQ(all.names.at({rank, 2}), "transfers");
    EXPECT_EQ(all.peaks.at(static_cast<int>(rank)), simulation.ranks[rank].peak_activations);
  }
}

TEST(ScheduleTimeline, AnArrowLeadsFromEachValuesMakerToItsUser) {
  const Schedule order = make(Kind::kInterleaved1F1B, {.ranks = 2, .microbatches = 4});  // 4 stages
  const Parsed all = parsed(timeline_json(simulate(order)));
  std::set<std::string> found;
  for (const auto& [id, ends] : all.arrows) {
    ASSERT_EQ(ends.size(), 2U);
    EXPECT_EQ(ends[0].at("ph"), "s");
    EXPECT_EQ(ends[1].at("ph"), "f");
    found.insert(under(all, ends[0]) + ' ' + under(all, ends[1]));
  }
  std::set<std::string> wanted;
  for (int m = 0; m < 4; ++m) {
    const std::string number = std::to_string(m);
    for (int s = 0; s < 3; ++s) {
      const auto action = [&](int stage, char op) { return std::to_string(stage) + op + number; };
      wanted.insert(action(s, 'F') + ' ' + action(s + 1, 'F'));
      wanted.insert(action(s + 1, 'B') + ' ' + action(s, 'B'));
    }
  }
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(all.arrows.size(), wanted.size());
}

TEST(ScheduleTimeline, SpansOfATrackNestOrFollow) {
  // Transfers of one cell, beside each other: on rank 1 one takes longer than the other.
  const Schedule schedule = parse(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1SEND_F0,1RECV_F1+1RECV_B0,1B0,1SEND_B0,1F1,1SEND_F1,1RECV_B1,1B1,1SEND_B1\n"
      "2RECV_F0,2F0,2B0,2SEND_B0,2RECV_F1,2F1,2B1,2SEND_B1\n");
  const CostModel model{.stages = {{.forward = 3}, {.forward = 1}, {.forward = 4}}, .capacity = 1};
  const Parsed all = parsed(timeline_json(simulate(schedule, model)));
  const auto of = [&](const std::string& name) {
    return *std::ranges::find(all.spans.at({1, 2}), name, &Event::name);
  };
  ASSERT_EQ(of("1RECV_F1").begin, of("1RECV_B0").begin);
  ASSERT_LT(of("1RECV_F1").begin, of("1RECV_F1").end);
  ASSERT_LT(of("1RECV_F1").end, of("1RECV_B0").end);
  for (const auto& [track, spans] : all.spans) {
    for (std::size_t i = 0; i + 1 < spans.size(); ++i) {
      EXPECT_TRUE(spans[i + 1].begin >= spans[i].end || spans[i + 1].end <= spans[i].end)
          << spans[i].name << ' ' << spans[i + 1].name;
    }
  }
}

TEST(ScheduleTimeline, AStopEndsIt) {
  const Schedule order = make(Kind::kOneFOneB, {.ranks = 4, .microbatches = 8});
  const Simulation simulation = simulate(order, {.capacity = 0});
  ASSERT_TRUE(simulation.stop.has_value());
  std::size_t actions = 0;
  for (const auto& spans : simulation.spans) actions += spans.size();
  std::size_t shown = 0;
  for (const auto& [track, spans] : parsed(timeline_json(simulation)).spans) shown += spans.size();
  EXPECT_EQ(shown, actions);
}

}  // namespace timeline_test
}  // namespace schedule_program
