#include "leat/pipeline/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/pipeline/text.h"

namespace leat::pipeline {
namespace {

TEST(PipelineSimulate, TwoStagesByHand) {
  //  0: F0 . . F1 . . . . B0 B0 B0 B1 B1 B1     f = 1, i + w = 3 at stage 0; 2, 2 at stage 1; link
  //  1
  const Schedule schedule = parse("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const CostModel model{.stages = {{1, 2, 1, 10}, {2, 1, 1, 7}}, .link = 1};
  const Simulation found = simulate(schedule, model);
  // Stage 1: F0 2..4, B0 4..6, F1 6..8, B1 8..10; stage 0: B0 7..10, B1 11..14.
  EXPECT_EQ(found.makespan, 14);
  EXPECT_FALSE(found.stop.has_value());
  EXPECT_EQ(found.ranks[0].busy, 8);
  EXPECT_EQ(found.ranks[0].fill, 0);
  EXPECT_EQ(found.ranks[0].wait, 6);
  EXPECT_EQ(found.ranks[0].drain, 0);
  EXPECT_EQ(found.ranks[0].peak_activations, 2);
  EXPECT_EQ(found.ranks[0].peak_bytes, 20);
  EXPECT_EQ(found.ranks[1].busy, 8);
  EXPECT_EQ(found.ranks[1].fill, 2);
  EXPECT_EQ(found.ranks[1].wait, 0);
  EXPECT_EQ(found.ranks[1].drain, 4);
  EXPECT_EQ(found.ranks[1].peak_bytes, 7);
  EXPECT_DOUBLE_EQ(found.bubble, 1 - 16. / 28);
  std::vector<std::string> path;
  for (const CriticalStep& step : found.critical_path) {
    path.push_back(std::to_string(step.row) + " " + to_string(step.span.action));
  }
  EXPECT_EQ(path, (std::vector<std::string>{"0 0F0", "1 1RECV_F0", "1 1F0", "1 1B0", "1 1F1",
                                            "1 1B1", "0 0RECV_B1", "0 0B1"}));
}

TEST(PipelineSimulate, WithoutPlacesBothSidesAreHeldForTheLink) {
  const Schedule schedule = parse("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  const Simulation met = simulate(schedule, {.link = 5, .capacity = 0});
  EXPECT_EQ(met.makespan, 1 + 5 + 1 + 2 + 5 + 2);
  EXPECT_EQ(met.spans[0][1].end, 6);
  const Simulation sent = simulate(schedule, {.link = 5, .capacity = 1});
  EXPECT_EQ(sent.makespan, 16);
  EXPECT_EQ(sent.spans[0][1].end, 1);
  EXPECT_EQ(sent.spans[1][0].end, 6);
}

TEST(PipelineSimulate, APlaceIsKeptUntilTheRecvIsDone) {
  // Stage 1 takes microbatch 0 at 1 and 1 at 11: stage 0's second Send waits until then, its third
  // until 21.
  const Schedule schedule = parse(
      "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2\n"
      "1RECV_F0,1F0,1RECV_F1,1F1,1RECV_F2,1F2,1B0,1SEND_B0,1B1,1SEND_B1,1B2,1SEND_B2\n");
  const CostModel model{.stages = {{1, 1, 1, 1}, {10, 1, 1, 1}}, .link = 0, .capacity = 1};
  const Simulation found = simulate(schedule, model);
  EXPECT_EQ(found.spans[0][3].end, 2);   // 0SEND_F1: the place is free, since 0 was taken at 1
  EXPECT_EQ(found.spans[0][5].end, 11);  // 0SEND_F2: 1 was taken at 11
}

TEST(PipelineSimulate, ActionsOfACellComputeInTurnBesideTransfers) {
  const Schedule schedule = parse(
      "0F0,0SEND_F0+0F1,0SEND_F1,0RECV_B0,0RECV_B1+0B0,0B1\n"
      "1RECV_F0,1F0+1RECV_F1,1F1+1B0,1SEND_B0+1B1,1SEND_B1\n");
  const Simulation found = simulate(schedule, {.stages = {{3, 2, 2, 1}}, .link = 4});
  EXPECT_EQ(found.spans[1][2].begin, 7);   // 1RECV_F1 starts with 1F0
  EXPECT_EQ(found.spans[1][2].end, 10);    // sent at 6, there at 10
  EXPECT_EQ(found.spans[1][3].begin, 10);  // 1F1, then 1B0
  EXPECT_EQ(found.spans[1][4].begin, 13);
  EXPECT_EQ(found.spans[1][4].end, 17);
  EXPECT_EQ(found.makespan, 17 + 4 + 4 + 4);  // 1B1 beside 1SEND_B0; 0B0 from 21, 0B1 from 25
}

TEST(PipelineSimulate, AScheduleThatStopsIsToldWithWhatHasRun) {
  const Schedule schedule = parse("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  const Simulation found = simulate(schedule);
  ASSERT_TRUE(found.stop.has_value());
  EXPECT_EQ(found.stop->stuck.size(), 2);
  EXPECT_EQ(found.makespan, 2);
  EXPECT_EQ(makespan(schedule), std::nullopt);
}

TEST(PipelineSimulate, ACostThatIsNoneIsRefused) {
  const Schedule schedule = parse("0F0,0B0\n1F0,1B0\n");
  EXPECT_THROW((void)simulate(schedule, {.stages = {{-1, 1, 1, 1}}}), std::invalid_argument);
  EXPECT_THROW((void)simulate(schedule, {.link = -1}), std::invalid_argument);
  EXPECT_THROW((void)simulate(schedule, {.capacity = -1}), std::invalid_argument);
  EXPECT_THROW((void)simulate(schedule, {.stages = {{}, {}, {}}}), std::invalid_argument);
  EXPECT_THROW((void)simulate(schedule, {.stages = {}}), std::invalid_argument);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW((void)simulate(schedule, {.stages = {{most, most, 1, 1}}}), std::invalid_argument);
}

/// The rules, followed instant by instant: nothing of the timeline's code.
class Clockwork {
 public:
  Clockwork(const Schedule& lowered, const CostModel& model) : schedule_(lowered), model_(model) {}

  /// The makespan, or -1 if it stops.
  std::int64_t run() {
    ranks_.resize(schedule_.rows.size());
    for (std::int64_t now = 0;; ++now) {
      while (step(now)) {
      }
      if (std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.has_ended; })) return now;
      if (!is_anything_pending(now)) return -1;
    }
  }

 private:
  struct Rank {
    std::size_t column = 0;
    bool is_in_cell = false;
    bool has_ended = false;
    std::int64_t computed = 0;                        // when its cell has computed
    std::map<std::size_t, std::int64_t> transferred;  // of its actions: when; -1: not known
  };
  struct Value {
    std::int64_t arrives = 0;
    bool taken = false;
  };
  struct Channel {
    std::vector<std::pair<std::size_t, std::size_t>> senders;    // rank, action: who waits to send
    std::vector<std::pair<std::size_t, std::size_t>> receivers;  // or to receive
    std::vector<Value> values;                                   // that have been sent
    std::size_t occupied = 0;
    std::vector<std::int64_t> leaving;  // when receives that are under way end
  };

  bool step(std::int64_t now) {
    bool moved = false;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      if (rank.is_in_cell && now >= rank.computed &&
          std::ranges::all_of(rank.transferred, [&](const auto& one) {
            return one.second >= 0 && one.second <= now;
          })) {
        rank.is_in_cell = false;
        ++rank.column;
        moved = true;
      }
      if (!rank.is_in_cell && !rank.has_ended) {
        moved = true;
        if (rank.column == schedule_.rows[r].size()) {
          rank.has_ended = true;
        } else {
          enter(r, now);
        }
      }
    }
    for (auto& [name, channel] : channels_) moved = settle(channel, now) || moved;
    return moved;
  }

  void enter(std::size_t r, std::int64_t now) {
    Rank& rank = ranks_[r];
    rank.is_in_cell = true;
    rank.transferred.clear();
    rank.computed = now;
    const Cell& cell = schedule_.rows[r][rank.column];
    for (std::size_t i = 0; i < cell.size(); ++i) {
      const StageCost& cost = model_.of(cell[i].stage);
      if (cell[i].op == Op::kForward) rank.computed += cost.forward;
      if (cell[i].op == Op::kBackward || cell[i].op == Op::kBackwardInput) {
        rank.computed += cost.backward_input;
      }
      if (cell[i].op == Op::kBackward || cell[i].op == Op::kBackwardWeight) {
        rank.computed += cost.backward_weight;
      }
      if (!transfers(cell[i].op)) continue;
      rank.transferred[i] = -1;
      Channel& channel = channels_[channel_of(cell[i])];
      (sends(cell[i].op) ? channel.senders : channel.receivers).emplace_back(r, i);
    }
  }

  bool settle(Channel& channel, std::int64_t now) {
    bool moved = false;
    std::erase_if(channel.leaving, [&](std::int64_t at) {
      if (at > now) return false;
      if (model_.capacity != 0) --channel.occupied;
      return moved = true;
    });
    const auto first = [](auto& queue) {
      const auto one = queue.front();
      queue.erase(queue.begin());
      return one;
    };
    if (model_.capacity == 0) {
      while (!channel.senders.empty() && !channel.receivers.empty()) {
        for (auto* queue : {&channel.senders, &channel.receivers}) {
          const auto [rank, action] = first(*queue);
          ranks_[rank].transferred[action] = now + model_.link;
        }
        moved = true;
      }
      return moved;
    }
    while (!channel.senders.empty() &&
           (!model_.capacity || channel.occupied < static_cast<std::size_t>(*model_.capacity))) {
      const auto [rank, action] = first(channel.senders);
      ranks_[rank].transferred[action] = now;
      channel.values.push_back({now + model_.link});
      ++channel.occupied;
      moved = true;
    }
    while (!channel.receivers.empty() && !channel.values.empty()) {
      const auto [rank, action] = first(channel.receivers);
      const std::int64_t at = std::max(now, channel.values.front().arrives);
      channel.values.erase(channel.values.begin());
      ranks_[rank].transferred[action] = at;
      channel.leaving.push_back(at);
      moved = true;
    }
    return moved;
  }

  bool is_anything_pending(std::int64_t now) {
    for (const auto& [name, channel] : channels_) {
      if (!channel.leaving.empty()) return true;
    }
    return std::ranges::any_of(ranks_, [&](const Rank& rank) {
      return rank.is_in_cell &&
             (rank.computed > now || std::ranges::any_of(rank.transferred, [&](const auto& one) {
                return one.second > now;
              }));
    });
  }

  const Schedule& schedule_;
  const CostModel& model_;
  std::vector<Rank> ranks_;
  std::map<std::int32_t, Channel> channels_;
};

/// An order in which each rank does what it likes of what is possible, so that it runs with enough
/// places; some with Sends and Recvs in cells of several actions.
Schedule random_schedule(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int ranks = 1 + below(4);
  const int stages = ranks * (1 + below(2));
  const int microbatches = 1 + below(5);
  Schedule order{.rows = std::vector<Row>(static_cast<std::size_t>(ranks)),
                 .stages = stages,
                 .microbatches = microbatches};
  std::map<std::pair<int, int>, int> done;  // of (stage, microbatch): F 1, I or B 2
  std::vector<std::pair<int, int>> weights;
  for (int left = 2 * stages * microbatches; left > 0;) {
    const int s = below(stages);
    const int m = below(microbatches);
    Row& row = order.rows[static_cast<std::size_t>(s % ranks)];
    int& state = done[{s, m}];
    const auto add = [&](Op op, int stage, int microbatch) {
      row.push_back({{.stage = stage, .op = op, .microbatch = microbatch}});
    };
    // In order at each stage, so that channels are not crossed.
    const bool is_next = m == 0 || done[{s, m - 1}] > state;
    if (!is_next) continue;
    if (state == 0 && (s == 0 || done[{s - 1, m}] >= 1)) {
      add(Op::kForward, s, m);
    } else if (state == 1 && (s == stages - 1 || done[{s + 1, m}] == 2)) {
      if (below(2) == 0) {
        add(Op::kBackward, s, m);
      } else {
        add(Op::kBackwardInput, s, m);
        weights.emplace_back(s, m);
      }
    } else {
      continue;
    }
    ++state;
    --left;
    if (!weights.empty() && below(3) == 0) {
      order.rows[static_cast<std::size_t>(weights.front().first % ranks)].push_back(
          {{.stage = weights.front().first,
            .op = Op::kBackwardWeight,
            .microbatch = weights.front().second}});
      weights.erase(weights.begin());
    }
  }
  for (const auto& [stage, microbatch] : weights) {
    order.rows[static_cast<std::size_t>(stage % ranks)].push_back(
        {{.stage = stage, .op = Op::kBackwardWeight, .microbatch = microbatch}});
  }
  Schedule lowered = lower(order);
  for (Row& row : lowered.rows) {  // a Send joins the cell behind it, a Recv the one before it
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      if (row[i].size() != 1 || row[i + 1].size() != 1 || below(4) != 0) continue;
      const Action first = row[i].front();
      const Action second = row[i + 1].front();
      const bool is_free = sends(first.op)
                               ? second.op != Op::kWaitSendForward
                               : computes(first.op) && transfers(second.op) && !sends(second.op);
      if (!is_free || channel_of(first) == channel_of(second)) continue;
      row[i].push_back(second);
      row.erase(row.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }
  return lowered;
}

TEST(PipelineSimulate, TwoThousandRandomSchedulesTakeWhatTheClockworkTakes) {
  std::mt19937 random(27);
  int stopped = 0;
  for (int i = 0; i < 2000; ++i) {
    const Schedule schedule = random_schedule(random);
    ASSERT_TRUE(check(schedule, {.capacity = 100}).findings.empty())
        << check(schedule, {.capacity = 100}).report(schedule) << to_csv(schedule);
    CostModel model{.stages = {}};
    for (int s = 0; s < schedule.stages; ++s) {
      model.stages.push_back({static_cast<std::int64_t>(random() % 5),
                              static_cast<std::int64_t>(random() % 5),
                              static_cast<std::int64_t>(random() % 5), 1});
    }
    model.link = static_cast<std::int64_t>(random() % 4);
    if (random() % 4 != 0) model.capacity = static_cast<int>(random() % 4);
    const std::int64_t expected = Clockwork(schedule, model).run();
    const Simulation found = simulate(schedule, model);
    ASSERT_EQ(found.stop ? -1 : found.makespan, expected) << to_csv(schedule);
    ASSERT_EQ(makespan(schedule, model).value_or(-1), expected);
    if (found.stop) {
      ++stopped;
      ASSERT_GE(found.stop->cycle.size(), 2);
      continue;
    }
    // The critical path has no gap and no overlap, and each rank's time adds up.
    std::int64_t at = 0;
    for (const CriticalStep& step : found.critical_path) {
      ASSERT_EQ(step.span.begin, at) << to_csv(schedule);
      at = step.span.end;
    }
    ASSERT_EQ(at, found.makespan) << to_csv(schedule);
    for (const RankTimes& times : found.ranks) {
      ASSERT_EQ(times.busy + times.fill + times.wait + times.drain, found.makespan);
      ASSERT_GE(std::min({times.busy, times.fill, times.wait, times.drain}), 0);
    }
  }
  EXPECT_GT(stopped, 50);
  EXPECT_LT(stopped, 1500);
}

TEST(PipelineSimulate, TheLeastCapacitiesAreThoseThatTryingFinds) {
  std::mt19937 random(28);
  for (int i = 0; i < 300; ++i) {
    const Schedule schedule = random_schedule(random);
    const Capacities found = capacities(schedule);
    const std::int64_t fastest = *makespan(schedule);
    int run = 0;
    while (!makespan(schedule, {.capacity = run})) ++run;
    int full = run;
    while (*makespan(schedule, {.capacity = full}) > fastest) ++full;
    ASSERT_EQ(found.to_run, run) << to_csv(schedule);
    ASSERT_EQ(found.full_speed, full) << to_csv(schedule);
  }
}

}  // namespace
}  // namespace leat::pipeline
