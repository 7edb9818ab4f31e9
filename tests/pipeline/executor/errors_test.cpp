// What goes wrong in a step: where it is told, and that nothing hangs and nothing is left.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/error.h"
#include "leat/pipeline/check.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/executor/runner.h"
#include "leat/pipeline/kinds.h"
#include "leat/pipeline/simulate.h"
#include "leat/pipeline/text.h"
#include "tests/pipeline/executor/support/model.h"
#include "tests/support/run.h"

namespace leat::pipeline {
namespace executor_errors_test {

using support::Model;

constexpr std::uint64_t kSamples = 16;

Schedule one_f_one_b() { return make(Kind::kOneFOneB, {.ranks = 4, .microbatches = 8}); }

/// The error that a step ends with, and what it was caused by.
struct Failed {
  PipelineError error;
  std::string cause;
  bool is_the_devices = false;
};
/// None: the step ends well.
std::optional<Failed> error_of(Executor& executor) {
  try {
    executor.step(kSamples);
  } catch (const PipelineError& error) {
    try {
      std::rethrow_if_nested(error);
      return Failed{.error = error, .cause = ""};
    } catch (const gpu::GpuError& cause) {
      return Failed{.error = error, .cause = cause.what(), .is_the_devices = true};
    } catch (const std::exception& cause) {
      return Failed{.error = error, .cause = cause.what()};
    }
  }
  return std::nullopt;
}

/// The cell of an action in the row of a schedule.
std::size_t column_of(const Schedule& schedule, std::size_t rank, const Action& action) {
  const Row& row = schedule.rows[rank];
  for (std::size_t column = 0; column < row.size(); ++column) {
    for (const Action& one : row[column]) {
      if (one == action) return column;
    }
  }
  return row.size();
}

TEST(ExecutorErrors, OfAStageHaveItsRankStageMicrobatchAndCell) {
  const Op functions[] = {Op::kForward, Op::kBackwardInput, Op::kBackwardWeight};
  for (std::int32_t stage = 0; stage < 4; ++stage) {
    for (const Op function : functions) {
      leat::support::in_virtual_time([&] {
        Model model(one_f_one_b(), {});
        model.stages[static_cast<std::size_t>(stage)]->hook = [&](Op called, const Microbatch& m) {
          if (called == function && m.index == 5) throw std::runtime_error("no more");
        };
        Executor executor(one_f_one_b(), model.parts(), {.most_samples = kSamples});
        const std::optional<Failed> failed = error_of(executor);
        ASSERT_TRUE(failed.has_value());
        const PipelineError* const error = &failed->error;
        const Action action{.stage = stage,
                            .op = function == Op::kForward ? function : Op::kBackward,
                            .microbatch = 5};
        EXPECT_EQ(error->rank(), static_cast<std::size_t>(stage));
        EXPECT_EQ(error->action(), action);
        EXPECT_EQ(error->column(), column_of(executor.schedule(), error->rank(), action));
        EXPECT_EQ(std::string(error->what()),
                  "leat: pipeline: rank " + std::to_string(stage) + ", cell " +
                      std::to_string(error->column()) + ", " + to_string(action) + " (stage " +
                      std::to_string(stage) + ", microbatch 5): no more");
        EXPECT_EQ(failed->cause, "no more");
        EXPECT_THROW(executor.step(kSamples), std::logic_error);
      });
    }
  }
}

/// Runs a step in which the weights' gradient of microbatch 3 at stage 1, or its forward, throws.
template <class Thrown>
void expect_error_of(Op function, const Thrown& thrown, const std::string& reason) {
  const auto body = [&] {
    Model model(one_f_one_b(), {});
    model.stages[1]->hook = [&](Op called, const Microbatch& m) {
      if (called == function && m.index == 3) throw thrown;
    };
    Executor executor(one_f_one_b(), model.parts(), {.most_samples = kSamples});
    try {
      executor.step(kSamples);
      FAIL() << "the step ended well";
    } catch (const PipelineError& error) {
      EXPECT_EQ(error.rank(), 1U);
      EXPECT_EQ(error.action().microbatch, 3);
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
    EXPECT_THROW(executor.step(kSamples), std::logic_error);
  };
  leat::support::in_virtual_time(body);
  body();  // on a plain thread
}

TEST(ExecutorErrors, OfAStageThatThrowsWhatIsNoStdExceptionEndTheStep) {
  for (const Op function : {Op::kForward, Op::kBackwardWeight}) {
    expect_error_of(function, 42, "no std::exception");
    expect_error_of(function, Cancelled{}, "nobody has cancelled");
  }
}

TEST(ExecutorErrors, OfAKernelEndTheStepWithTheDevicesError) {
  for (std::size_t stage = 0; stage < 4; ++stage) {
    leat::support::in_virtual_time([&] {
      Model model(one_f_one_b(), {});
      model.stages[stage]->hook = [](Op called, const Microbatch& m) {
        if (called != Op::kBackwardInput || m.index != 3) return;
        m.stream.launch_host([] { throw std::runtime_error("kernel without a device"); });
      };
      Executor executor(one_f_one_b(), model.parts(), {.most_samples = kSamples});
      const std::optional<Failed> failed = error_of(executor);
      ASSERT_TRUE(failed.has_value());
      EXPECT_TRUE(failed->is_the_devices);
      EXPECT_NE(std::string(failed->error.what()).find("kernel without a device"),
                std::string::npos);
    });
  }
}

// Joined cells, so that lanes are cancelled, too.
Schedule with_lanes() {
  return parse(
      "0F0,0SEND_F0,0F1,0SEND_F1+0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1RECV_F1+1SEND_B0,1F1,1B1,1SEND_B1\n");
}

TEST(ExecutorErrors, ACancellationAtAnyTimeEndsTheStepAndLeavesNothing) {
  const CostModel costs{.stages = {{.forward = 30, .backward_input = 25, .backward_weight = 35}},
                        .link = 7};
  int cancelled = 0;
  for (const bool lanes : {false, true}) {
    const Schedule schedule = lanes ? with_lanes() : one_f_one_b();
    const std::int64_t makespan = simulate(schedule, costs).makespan;
    const std::int64_t step = lanes ? 1 : std::max<std::int64_t>(1, makespan / 800);
    for (std::int64_t at = 0; at <= makespan + 20; at += step) {
      if (leat::support::is_left_out(static_cast<int>(at))) continue;
      leat::support::in_virtual_time([&] {
        std::vector<gpu::Device> devices;
        {
          Model model(schedule, costs);
          devices = model.devices;
          std::optional<Executor> executor;
          executor.emplace(schedule, model.parts(),
                           ExecutorOptions{.most_samples = kSamples, .link = Duration(costs.link)});
          TaskGroup group;
          bool has_ended = false;
          group.go([&] {
            executor->step(kSamples);
            has_ended = true;
          });
          sleep_for(Duration(at));
          group.stop();
          group.wait();
          if (!has_ended) {
            ++cancelled;
            EXPECT_THROW(executor->step(kSamples), std::logic_error);
          }
        }
        for (const gpu::Device& device : devices) {
          EXPECT_EQ(device.memory().device.used, 0U);
          EXPECT_EQ(device.memory().pinned.used, 0U);
        }
      });
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(cancelled, leat::support::rounds(1'000));
}

TEST(ExecutorErrors, WhatDoesNotFitIsRefusedAtOnce) {
  leat::support::in_virtual_time([] {
    Model model(one_f_one_b(), {});
    const auto make_with =
        [&](const std::function<void(std::vector<RankPart>&, ExecutorOptions&)>& change) {
          std::vector<RankPart> parts = model.parts();
          ExecutorOptions options{.most_samples = kSamples};
          change(parts, options);
          Executor(one_f_one_b(), std::move(parts), options).step(kSamples);
        };
    EXPECT_NO_THROW(make_with([](auto&, auto&) {}));
    const auto refused = [&](const auto& change) {
      EXPECT_THROW(make_with(change), std::invalid_argument);
    };
    refused([](auto& parts, auto&) { parts.pop_back(); });
    refused([](auto& parts, auto&) { parts[1].stages.clear(); });
    refused([](auto& parts, auto&) { parts[1].stages = {nullptr}; });
    refused([](auto& parts, auto&) { std::swap(parts[0].stages, parts[1].stages); });
    refused([](auto&, auto& options) { options.most_samples = 7; });
    refused([](auto&, auto& options) { options.most_samples = kSamples - 1; });
    refused([](auto&, auto& options) { options.capacity = -1; });
    refused([](auto&, auto& options) { options.link = Duration(-1); });

    Executor executor(one_f_one_b(), model.parts(), {.most_samples = kSamples});
    EXPECT_THROW(executor.step(7), std::invalid_argument);
    EXPECT_THROW(executor.step(kSamples + 1), std::invalid_argument);
    EXPECT_THROW(executor.step(kSamples, kSamples - 1), std::invalid_argument);
    EXPECT_THROW(executor.evaluate(7), std::invalid_argument);
    EXPECT_NO_THROW(executor.step(8, 64));
  });
}

TEST(ExecutorErrors, ASchedulesFaultsAreThoseOfCheckAndAStopIsReported) {
  leat::support::in_virtual_time([] {
    Model model(one_f_one_b(), {});
    const auto refusal = [&](const Schedule& schedule, std::optional<int> capacity) {
      try {
        Executor(schedule, model.parts(), {.most_samples = kSamples, .capacity = capacity});
      } catch (const ScheduleError& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    Schedule twice = one_f_one_b();
    twice.rows[2].push_back(twice.rows[2].front());
    EXPECT_NE(refusal(twice, {}).find("row 2, column 16"), std::string::npos);
    const std::string stop = refusal(one_f_one_b(), 0);
    EXPECT_NE(stop.find("3SEND_B0"), std::string::npos);
    EXPECT_NE(stop.find("1 is the least that runs"), std::string::npos);
  });
}

TEST(ExecutorErrors, OfAStopInRunningIsADeadlock) {
  VirtualClock clock;
  const auto body = [] {
    Model model(one_f_one_b(), {});
    Runner(lower(one_f_one_b()), model.parts(), {.most_samples = kSamples}, 0).step(8, 0, true);
  };
  EXPECT_THROW(run(body, {.workers = 1, .clock = &clock}), Deadlock);
}

TEST(ExecutorThread, APlainThreadStepsAnExecutorAsAFiberDoes) {
  Model model(one_f_one_b(), {.stages = {{0, 0, 0, 0}}});
  Executor executor(one_f_one_b(), model.parts(), {.most_samples = kSamples});
  executor.evaluate(kSamples);
  for (int i = 0; i < 3; ++i) executor.step(kSamples);
  run([&] { executor.step(kSamples); });
  std::vector<support::Number> expected = support::gradients_of(4, 8, kSamples, kSamples);
  for (support::Number& one : expected) one *= 4;
  EXPECT_EQ(model.sums(), expected);
  model.stages[2]->hook = [](Op, const Microbatch&) { throw std::runtime_error("no more"); };
  EXPECT_THROW(executor.step(kSamples), PipelineError);
}

}  // namespace executor_errors_test
}  // namespace leat::pipeline
