// Replicas of a pipeline, which sum their gradients; and hooks.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/link_model.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/pipeline/check.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/kinds.h"
#include "leat/pipeline/text.h"
#include "tests/pipeline/executor/support/model.h"
#include "tests/support/run.h"

namespace leat::pipeline {
namespace executor_replicas_test {

using support::gradients_of;
using support::Model;
using support::Number;

const CostModel kCosts = {.stages = {{.forward = 3, .backward_input = 2, .backward_weight = 4}}};

/// Two replicas of a schedule, each with an executor on a fiber of its own; the second has the
/// samples from 100 on. body(executor, replica) is called on it.
template <class Body>
std::vector<std::vector<Number>> train(const Schedule& schedule, const Body& body,
                                       const comm::OpenOptions& options = {}) {
  std::vector<std::vector<Number>> sums(2);
  leat::support::in_virtual_time([&] {
    std::vector<std::vector<comm::Communicator>> pairs;  // by rank
    for (std::size_t rank = 0; rank < schedule.rows.size(); ++rank) {
      pairs.push_back(comm::open("local:2", options));
    }
    TaskGroup group;
    for (std::size_t replica = 0; replica < 2; ++replica) {
      group.go([&, replica] {
        Model model(schedule, kCosts);
        for (const auto& stage : model.stages) stage->first_sample = 100 * replica;
        std::vector<RankPart> parts = model.parts();
        for (std::size_t rank = 0; rank < parts.size(); ++rank) {
          parts[rank].replicas = &pairs[rank][replica];
        }
        Executor executor(schedule, std::move(parts), {.most_samples = 20});
        body(executor, replica);
        sums[replica] = model.sums();
      });
    }
    group.wait();
  });
  return sums;
}

void add(std::vector<Number>& to, const std::vector<Number>& more) {
  to.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) to[i] += more[i];
}

class ExecutorReplicas : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ExecutorReplicas, testing::ValuesIn(kinds().begin(), kinds().end()),
                         [](const testing::TestParamInfo<Kind>& kind) {
                           return std::string(name(kind.param));
                         });

TEST_P(ExecutorReplicas, HaveTheSumOfTheirGradients) {
  const Schedule schedule = make(GetParam(), {.ranks = 2, .microbatches = 6});
  const auto sums = train(schedule, [](Executor& executor, std::size_t replica) {
    executor.step(replica == 0 ? 20 : 13, 33);
    executor.evaluate(20);
    for (const ExecutorStats::Rank& one : executor.stats().ranks) {
      ASSERT_TRUE(one.exchange.has_value());
      EXPECT_EQ(one.exchange->steps, 1U);
    }
  });
  std::vector<Number> expected;
  add(expected, gradients_of(schedule.stages, 6, 20, 33));
  add(expected, gradients_of(schedule.stages, 6, 13, 33, 100));
  EXPECT_EQ(sums[0], expected);
  EXPECT_EQ(sums[1], expected);
}

TEST(ExecutorExchange, ExchangeOnceForSeveralStepsBeforeAnUpdate) {
  const Schedule schedule = make(Kind::kOneFOneB, {.ranks = 2, .microbatches = 6});
  const auto sums = train(schedule, [](Executor& executor, std::size_t) {
    executor.step(20, 60, false);
    executor.step(10, 60);
  });
  std::vector<Number> expected;
  for (const std::uint64_t first : {0U, 100U}) {
    for (const std::uint64_t samples : {20U, 10U}) {
      add(expected, gradients_of(schedule.stages, 6, samples, 60, first));
    }
  }
  EXPECT_EQ(sums[0], expected);
  EXPECT_EQ(sums[1], expected);
}

/// Where an action without a microbatch is in a row: of how many cells it is behind.
std::size_t column_of(const Row& row, std::int32_t stage, Op op) {
  for (std::size_t column = 0; column < row.size(); ++column) {
    for (const Action& one : row[column]) {
      if (one.stage == stage && one.op == op) return column;
    }
  }
  return row.size();
}

TEST(ExecutorExchange, ReduceRightBehindAStagesLastBackwardAndAwaitAtTheEnd) {
  const Schedule schedule =
      make(Kind::kInterleaved1F1B, {.ranks = 2, .microbatches = 4, .stages_per_rank = 2});
  static_cast<void>(train(schedule, [](Executor& executor, std::size_t) {
    executor.step(8);
    const std::vector<int> ranks = ranks_of_stages(executor.schedule());
    for (std::int32_t stage = 0; stage < 4; ++stage) {
      const Row& row = executor.schedule()
                           .rows[static_cast<std::size_t>(ranks[static_cast<std::size_t>(stage)])];
      const std::size_t reduces = column_of(row, stage, Op::kReduceGrad);
      ASSERT_LT(reduces, row.size());
      EXPECT_EQ(row[reduces - 1].front(),
                (Action{.stage = stage, .op = Op::kBackward, .microbatch = 3}));
      EXPECT_GE(column_of(row, stage, Op::kWaitReduceGrad), row.size() - 2);
    }
  }));
}

// The exchange of stage 1 runs beside the backwards of stage 0, and takes 5.
TEST(ExecutorExchange, OfBucketsIsNotAwaitedBeforeTheLastStageIsReady) {
  const Schedule schedule = parse(
      "0F0,2F0,2B0,2REDUCE_GRAD,2WAIT_REDUCE_GRAD,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n"
      "1F0,1B0\n");
  for (const comm::Policy policy : {comm::Policy::kPriority, comm::Policy::kBucketed}) {
    leat::support::in_virtual_time([&] {
      const std::vector<comm::Communicator> replicas = comm::open("local:1");
      Model model(schedule, {});
      std::vector<RankPart> parts = model.parts();
      parts[0].replicas = &replicas.front();
      parts[0].exchange.policy = policy;
      const auto make_executor = [&] { Executor(schedule, parts, {.most_samples = 1}).step(1); };
      if (policy == comm::Policy::kBucketed) {
        EXPECT_THROW(make_executor(), std::invalid_argument);
      } else {
        make_executor();
      }
    });
  }
}

TEST(ExecutorExchange, HideAnExchangeThatIsOrderedEarly) {
  const Schedule early = parse(
      "0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD,1WAIT_REDUCE_GRAD,"
      "0WAIT_REDUCE_GRAD\n");
  const Schedule late = parse(
      "0F0,1F0,1B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,0B0,0REDUCE_GRAD,"
      "0WAIT_REDUCE_GRAD\n");
  for (const bool is_early : {true, false}) {
    static_cast<void>(train(is_early ? early : late,
                            [&](Executor& executor, std::size_t) {
                              const TimePoint began = now();
                              executor.step(1);
                              // F F B B are 3 + 3 + 6 + 6; then the last exchange.
                              EXPECT_EQ((now() - began).count(), is_early ? 18 + 5 : 18 + 5 + 5);
                            },
                            {.link = {.alpha = Duration(5), .enabled = true}}));
  }
}

TEST(ExecutorExchange, AFailureOfOneEndsTheOther) {
  const Schedule schedule = make(Kind::kOneFOneB, {.ranks = 2, .microbatches = 4});
  leat::support::in_virtual_time([&] {
    std::vector<comm::Communicator> first = comm::open("local:2");
    std::vector<comm::Communicator> second = comm::open("local:2");
    TaskGroup group;
    for (std::size_t replica = 0; replica < 2; ++replica) {
      group.go([&, replica] {
        Model model(schedule, kCosts);
        std::vector<RankPart> parts = model.parts();
        parts[0].replicas = &first[replica];
        parts[1].replicas = &second[replica];
        if (replica == 1) {
          model.stages[1]->hook = [](Op, const Microbatch& m) {
            if (m.index == 2) throw std::runtime_error("no more");
          };
        }
        Executor executor(schedule, std::move(parts), {.most_samples = 8});
        try {
          executor.step(8);
          ADD_FAILURE() << "a step of replica " << replica << " ends well";
        } catch (const PipelineError& error) {
          EXPECT_NE(std::string(error.what()).find("no more"), std::string::npos) << error.what();
        }
      });
    }
    group.wait();
  });
}

TEST(ExecutorHooks, AreCalledWhereTheScheduleHasThemInStepsAndEvaluations) {
  const Schedule schedule = parse(
      "0UNSHARD,0F0,0F1,0RESHARD,0UNSHARD,0B0,0B1,0RESHARD,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n"
      "1UNSHARD,1F0,1F1,1B0,1B1,1RESHARD\n");
  leat::support::in_virtual_time([&] {
    Model model(schedule, kCosts);
    Executor executor(schedule, model.parts(), {.most_samples = 8});
    executor.step(8);
    EXPECT_EQ(model.stages[0]->unshards, 2);
    EXPECT_EQ(model.stages[0]->reshards, 2);
    EXPECT_EQ(model.stages[1]->unshards, 1);
    EXPECT_EQ(model.stages[1]->reshards, 1);
    executor.evaluate(8);
    EXPECT_EQ(model.stages[0]->unshards, 4);
    EXPECT_EQ(model.stages[1]->reshards, 2);
  });
}

}  // namespace executor_replicas_test
}  // namespace leat::pipeline
