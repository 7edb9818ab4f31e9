#include "leat/pipeline/onnx_1f1b.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/pipeline/kinds.h"
#include "leat/pipeline/text.h"
#include "tests/support/texts.h"

namespace leat::pipeline {
namespace {

using leat::support::expect_throws;

/// "FS03", as ONNX Runtime writes a task.
std::string onnx_task(const Action& action) {
  constexpr std::array kNames = {"FW", "BW", "", "", "FS", "FR", "BS", "BR"};
  const std::string number = std::to_string(action.microbatch);
  return kNames.at(static_cast<std::size_t>(action.op)) +
         (number.size() < 2 ? "0" + number : number);
}

/// The functions below write what the file of cases has, as it has it.
template <class Values, class F>
std::string json_list(const Values& values, F&& f) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : ", ") + f(value);
  return "[" + text + "]";
}
std::string json_number(int n) { return std::to_string(n); }
std::string onnx_events(const ComputeEvents& e) {
  return json_list(
      std::vector{e.wait_before_recv, e.wait_after_recv, e.record_before_send, e.record_after_send},
      json_number);
}
std::string onnx_events(const FullEvents& e) {
  return json_list(std::vector{e.recv.waited, e.recv.recorded, e.compute.waited, e.compute.recorded,
                               e.send.waited, e.send.recorded},
                   json_number);
}
template <class Events>
std::string onnx_pass(const std::vector<std::vector<Events>>& stages) {
  return json_list(stages, [](const auto& stage) {
    return json_list(stage, [](const Events& one) { return onnx_events(one); });
  });
}
std::string onnx_json_table(const Schedule& schedule) {
  return json_list(schedule.rows, [](const Row& row) {
    return json_list(row, [](const Cell& cell) {
      std::string text;
      for (const Action& action : cell) text += (text.empty() ? "" : "+") + onnx_task(action);
      return "\"" + text + "\"";
    });
  });
}
std::string onnx_passes(const auto& of_passes) {
  return "\"forward\": " + onnx_pass(of_passes[0]) + ", \"backward\": " + onnx_pass(of_passes[1]);
}
std::string derived_case(std::int32_t microbatches, std::int32_t stages) {
  const Onnx1F1B made = onnx_1f1b(microbatches, stages);
  std::ostringstream text;
  text << "{\"batches\": " << microbatches << ", \"stages\": " << stages
       << ", \"compute_slots\": " << made.compute.rows[0].size()
       << ", \"full_slots\": " << made.full.rows[0].size()
       << ", \"max_in_flight_batches\": " << std::min(microbatches, stages)
       << ", \"compute_table_by_stage\": " << onnx_json_table(made.compute)
       << ", \"compute_commute_table_by_stage\": " << onnx_json_table(made.full)
       << ", \"compute_only_events\": {" << onnx_passes(made.compute_events)
       << "}, \"compute_commute_events\": {" << onnx_passes(made.full_events) << "}}";
  return text.str();
}

TEST(PipelineOnnx1F1B, TablesAndEventsAreOnnxRuntimes) {
  std::stringstream file;
  file << std::ifstream("tests/pipeline/data/schedule_cases.json").rdbuf();
  const std::string cases = file.str();
  EXPECT_NE(cases.find("\"batches\": 8, \"stages\": 3, \"kind\": \"compute_only\", \"columns\": "
                       "\"compute_only_columns\", " +
                       onnx_passes(onnx_1f1b(8, 3).compute_events)),
            std::string::npos);
  const auto begin = cases.find("\"derived\": ") + 11;
  EXPECT_EQ(cases.substr(begin, cases.find(", \"invariants\"") - begin),
            "[" + derived_case(1, 1) + ", " + derived_case(1, 2) + ", " + derived_case(4, 2) +
                ", " + derived_case(4, 4) + "]");
}

/// Calls f(tables, microbatches, stages) for B <= 12, S <= 8.
template <class F>
void for_each_onnx_size(F&& f) {
  for (std::int32_t microbatches = 1; microbatches <= 12; ++microbatches) {
    for (std::int32_t stages = 1; stages <= 8; ++stages) {
      SCOPED_TRACE(std::to_string(microbatches) + " microbatches, " + std::to_string(stages));
      f(onnx_1f1b(microbatches, stages), microbatches, stages);
    }
  }
}

/// The column of an action in its stage's row; -1: it is not there.
int onnx_column(const Schedule& schedule, const Action& action) {
  const Row& row = schedule.rows[static_cast<std::size_t>(action.stage)];
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (std::ranges::find(row[c], action) != row[c].end()) return static_cast<int>(c);
  }
  return -1;
}

TEST(PipelineOnnx1F1B, InTheComputeTableAStageDoesOneTaskAtATimeAfterTheStageBefore) {
  for_each_onnx_size([](const Onnx1F1B& made, std::int32_t microbatches, std::int32_t stages) {
    for (const Row& row : made.compute.rows) {
      ASSERT_EQ(std::ssize(row), 2 * stages + 2 * (microbatches - 1));
      ASSERT_EQ(std::ranges::count_if(row, [](const Cell& cell) { return cell.size() == 1; }),
                2 * microbatches);
      ASSERT_TRUE(std::ranges::all_of(row, [](const Cell& cell) { return cell.size() <= 1; }));
    }
    std::vector<int> under_way(made.compute.rows[0].size());
    for (std::int32_t m = 0; m < microbatches; ++m) {
      int last = -1;
      const auto follows = [&](std::int32_t stage, Op op) {
        const int at = onnx_column(made.compute, {.stage = stage, .op = op, .microbatch = m});
        ASSERT_GT(at, last);
        last = at;
      };
      for (std::int32_t s = 0; s < stages; ++s) follows(s, Op::kForward);
      for (std::int32_t s = stages - 1; s >= 0; --s) follows(s, Op::kBackward);
      for (int t = onnx_column(made.compute, {.op = Op::kForward, .microbatch = m}); t <= last;
           ++t) {
        ASSERT_LE(++under_way[static_cast<std::size_t>(t)], stages);
      }
    }
  });
}

TEST(PipelineOnnx1F1B, TheFullTableIsTheComputeTableWithCommunicationBetweenItsSlots) {
  for_each_onnx_size([](const Onnx1F1B& made, std::int32_t, std::int32_t) {
    for (std::size_t s = 0; s < made.full.rows.size(); ++s) {
      const Row& full = made.full.rows[s];
      ASSERT_EQ(full.size(), 2 * made.compute.rows[s].size() - 1);
      for (std::size_t c = 0; c < full.size(); ++c) {
        if (c % 2 == 0) {
          ASSERT_EQ(full[c], made.compute.rows[s][c / 2]);
          continue;
        }
        ASSERT_LE(std::ranges::count_if(full[c], [](const Action& a) { return sends(a.op); }), 1);
        ASSERT_LE(std::ranges::count_if(full[c], [](const Action& a) { return !sends(a.op); }), 1);
        ASSERT_TRUE(std::ranges::is_sorted(full[c], {}, onnx_task));
      }
    }
  });
}

TEST(PipelineOnnx1F1B, ASendAndItsRecvAreInOneRowAsLateAsTheStagesAreFree) {
  for_each_onnx_size([](const Onnx1F1B& made, std::int32_t microbatches, std::int32_t stages) {
    int transfers_seen = 0;
    const auto crosses = [&](std::int32_t m, std::int32_t from, std::int32_t to) {
      const bool forward = from < to;
      const Op op = forward ? Op::kForward : Op::kBackward;
      const int produced = onnx_column(made.full, {.stage = from, .op = op, .microbatch = m});
      const int used = onnx_column(made.full, {.stage = to, .op = op, .microbatch = m});
      const int sent = onnx_column(
          made.full,
          {.stage = from, .op = forward ? Op::kSendForward : Op::kSendBackward, .microbatch = m});
      ASSERT_EQ(sent, onnx_column(made.full, {.stage = to,
                                              .op = forward ? Op::kRecvForward : Op::kRecvBackward,
                                              .microbatch = m}));
      ASSERT_TRUE(produced < sent && sent < used);
      // Whatever is later was taken by another transfer.
      for (int c = sent + 2; c < used; c += 2) {
        const auto taken = [&](std::int32_t stage, bool is_send) {
          const Row& row = made.full.rows[static_cast<std::size_t>(stage)];
          return std::ranges::any_of(row[static_cast<std::size_t>(c)], [&](const Action& action) {
            return sends(action.op) == is_send;
          });
        };
        ASSERT_TRUE(taken(from, true) || taken(to, false));
      }
      transfers_seen += 2;
    };
    for (std::int32_t m = 0; m < microbatches; ++m) {
      for (std::int32_t s = 0; s + 1 < stages; ++s) {
        crosses(m, s, s + 1);
        crosses(m, s + 1, s);
      }
    }
    int transfers_there = 0;
    for (const Row& row : made.full.rows) {
      for (std::size_t c = 1; c < row.size(); c += 2) transfers_there += int(row[c].size());
    }
    ASSERT_EQ(transfers_there, transfers_seen);
  });
}

TEST(PipelineOnnx1F1B, OnEachStageEveryIdIsRecordedByOneCellAndWaitedForByTheNext) {
  for_each_onnx_size([](const Onnx1F1B& made, std::int32_t, std::int32_t stages) {
    for (std::int32_t s = 0; s < stages; ++s) {
      std::set<int> waited;
      std::set<int> recorded;
      for (const auto& of_pass : made.full_events) {
        for (const FullEvents& one : of_pass[static_cast<std::size_t>(s)]) {
          for (const WaitRecord& pair : {one.recv, one.compute, one.send}) {
            if (pair == WaitRecord{}) continue;
            ASSERT_EQ(pair.waited, pair.recorded - 1);
            waited.insert(pair.waited);
            recorded.insert(pair.recorded);
          }
        }
      }
      const auto cells = std::ranges::count_if(made.full.rows[static_cast<std::size_t>(s)],
                                               [](const Cell& cell) { return !cell.empty(); });
      ASSERT_EQ(std::ssize(recorded), cells);
      ASSERT_EQ(*recorded.begin(), 0);
      ASSERT_EQ(*recorded.rbegin(), cells - 1);
      ASSERT_EQ(*waited.begin(), -1);
    }
  });
}

TEST(PipelineOnnx1F1B, TheFullTablePrintsAsAGridAndIsReadAgain) {
  const Onnx1F1B made = onnx_1f1b(4, 2);
  const std::string grid = to_grid(made.full);
  EXPECT_NE(grid.find("BR00+FS01"), std::string::npos);
  EXPECT_EQ(grid, to_grid(parse(grid)));
}

TEST(PipelineOnnx1F1B, StageToRankPlacesTheRowsAndLeavesTheEvents) {
  const Onnx1F1B in_order = onnx_1f1b(5, 3);
  const Onnx1F1B placed = onnx_1f1b(5, 3, std::vector{2, 0, 1});
  for (std::size_t s = 0; s < 3; ++s) {
    const std::size_t rank = (s + 2) % 3;
    EXPECT_EQ(placed.compute.rows[rank], in_order.compute.rows[s]);
    EXPECT_EQ(placed.full.rows[rank], in_order.full.rows[s]);
  }
  EXPECT_EQ(placed.compute_events, in_order.compute_events);
  EXPECT_EQ(placed.full_events, in_order.full_events);
  EXPECT_EQ(ranks_of_stages(placed.full), (std::vector{2, 0, 1}));
}

TEST(PipelineOnnx1F1B, TheKindIsTheComputeTable) {
  EXPECT_EQ(make(Kind::kOnnx1F1B, {.ranks = 4, .microbatches = 6}), onnx_1f1b(6, 4).compute);
}

TEST(PipelineOnnx1F1B, WhatHasNoTableIsRefused) {
  const auto refused = [](std::int32_t microbatches, std::int32_t stages,
                          const std::vector<int>& stage_to_rank, std::string_view part) {
    expect_throws<std::invalid_argument>(
        [&] { (void)onnx_1f1b(microbatches, stages, stage_to_rank); }, {"onnx_1f1b", part});
  };
  refused(0, 2, {}, "0 microbatches");
  refused(-3, 2, {}, "-3 microbatches");
  refused(2, 0, {}, "0 stages");
  refused(1 << 20, 1 << 10, {}, "more than 67108864 cells");
  refused(2, 2, {0}, "1 ranks for 2 stages");
  refused(2, 2, {0, 1, 2}, "3 ranks for 2 stages");
  refused(2, 2, {0, 2}, "rank 2; 0 to 1");
  refused(2, 2, {-1, 0}, "rank -1");
  refused(2, 3, {1, 0, 1}, "rank 1 twice");
}

}  // namespace
}  // namespace leat::pipeline
