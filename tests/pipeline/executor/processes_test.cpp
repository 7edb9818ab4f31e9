// An executor for each rank, joined by a communicator, as between processes: in virtual time, and
// on threads of their own. tests/pipeline/mpi runs ranks in processes.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/pipeline/check.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/kinds.h"
#include "leat/pipeline/simulate.h"
#include "leat/pipeline/text.h"
#include "tests/pipeline/executor/support/model.h"
#include "tests/support/run.h"

namespace leat::pipeline {
namespace executor_processes_test {

using support::Model;

constexpr std::uint64_t kSamples = 21;

/// Calls body(rank) for each rank on a fiber of its own, in virtual time.
void on_ranks(std::size_t ranks, const std::function<void(comm::Communicator& me)>& body) {
  std::vector<comm::Communicator> all = comm::open("local:" + std::to_string(ranks));
  TaskGroup group;
  for (comm::Communicator& one : all) {
    group.go([&] { body(one); });
  }
  group.wait();
}

RankPart part_of(const Model& model, const comm::Communicator& me) {
  return model.part(static_cast<std::size_t>(me.rank()));
}

class ExecutorProcesses : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ExecutorProcesses,
                         testing::ValuesIn(kinds().begin(), kinds().end()),
                         [](const testing::TestParamInfo<Kind>& kind) {
                           return std::string(name(kind.param));
                         });

TEST_P(ExecutorProcesses, ComputeWhatOneDeviceComputesInTheTimeThatIsSimulated) {
  for (const std::int32_t ranks : {1, 2, 4}) {
    const Schedule schedule = make(GetParam(), {.ranks = ranks, .microbatches = 8});
    const CostModel costs{.stages = {{.forward = 3, .backward_input = 2, .backward_weight = 4}}};
    for (const bool places_as_chosen : {true, false}) {
      std::optional<int> capacity;
      if (!places_as_chosen) capacity = capacities(lower(schedule)).to_run;
      leat::support::in_virtual_time([&] {
        Model model(schedule, costs);
        on_ranks(schedule.rows.size(), [&](comm::Communicator& me) {
          Executor executor(schedule, part_of(model, me), me,
                            {.most_samples = kSamples, .capacity = capacity});
          executor.evaluate(kSamples - 1);
          me.barrier().await();
          const TimePoint began = now();
          executor.step(kSamples);
          me.barrier().await();
          CostModel simulated = costs;
          if (!places_as_chosen) simulated.capacity = executor.capacity();
          const std::int64_t makespan = simulate(schedule, simulated).makespan;
          // A receive that begins before its cell is like one place more.
          if (places_as_chosen) {
            EXPECT_EQ((now() - began).count(), makespan);
          } else {
            EXPECT_LE((now() - began).count(), makespan);
          }
          executor.step(8, 29);
          const ExecutorStats stats = executor.stats();
          ASSERT_EQ(stats.ranks.size(), 1U);
          EXPECT_EQ(stats.steps, 3U);
          EXPECT_EQ(stats.ranks.front().rank, static_cast<std::size_t>(me.rank()));
          EXPECT_THROW(static_cast<void>(executor.stream(schedule.rows.size())),
                       std::invalid_argument);
        });
        std::vector<support::Number> expected =
            support::gradients_of(schedule.stages, 8, kSamples, kSamples);
        const auto more = support::gradients_of(schedule.stages, 8, 8, 29);
        for (std::size_t s = 0; s < more.size(); ++s) expected[s] += more[s];
        EXPECT_EQ(model.sums(), expected);
      });
    }
  }
}

// A rank begins a receive when its fiber comes to it: like one place more, and never like two.
TEST(ExecutorPlaces, BetweenProcessesHoldASenderUpAsOneMoreWouldAtMost) {
  const Schedule schedule =
      make(Kind::kInterleaved1F1B, {.ranks = 4, .microbatches = 7, .stages_per_rank = 2});
  for (const int capacity : {1, 2, 3}) {
    CostModel costs{.capacity = capacity};
    const std::int64_t longest = simulate(schedule, costs).makespan;
    costs.capacity = capacity + 1;
    const std::int64_t shortest = simulate(schedule, costs).makespan;
    const Duration took = leat::support::in_virtual_time([&] {
      Model model(schedule, costs);
      on_ranks(4, [&](comm::Communicator& me) {
        Executor executor(schedule, part_of(model, me), me,
                          {.most_samples = kSamples, .capacity = capacity});
        executor.step(kSamples);
      });
    });
    EXPECT_LE(took.count(), longest) << capacity;
    EXPECT_GE(took.count(), shortest) << capacity;
    if (capacity == 1) {
      EXPECT_GT(took.count(), simulate(schedule).makespan);
    }
  }
}

// Rank 1 comes late: meanwhile rank 0 sends as many values as there are places, and computes one
// more.
TEST(ExecutorPlaces, BetweenProcessesAreAsManyAsTheCapacity) {
  const Schedule schedule = make(Kind::kGpipe, {.ranks = 2, .microbatches = 4});
  for (const int capacity : {0, 1, 2}) {
    int forwards = 0;
    leat::support::in_virtual_time([&] {
      Model model(schedule, {});
      model.stages[0]->hook = [&](Op called, const Microbatch& /*m*/) {
        if (called == Op::kForward && leat::support::elapsed() < Duration(1'000)) ++forwards;
      };
      on_ranks(2, [&](comm::Communicator& me) {
        Executor executor(schedule, part_of(model, me), me,
                          {.most_samples = kSamples, .capacity = capacity});
        if (me.rank() == 1) sleep_for(Duration(1'000));
        executor.step(kSamples);
      });
    });
    EXPECT_EQ(forwards, capacity + 1);
  }
}

// Rank 1 receives values of two channels from rank 0 in another order than they are sent in.
TEST(ExecutorPlaces, BetweenProcessesAreOfOneChannelEach) {
  const Schedule schedule =
      parse("0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,3F0,1F1,3F1,3B0,3B1,1B0,1B1\n");
  leat::support::in_virtual_time([&] {
    Model model(schedule, {});
    on_ranks(2, [&](comm::Communicator& me) {
      Executor executor(schedule, part_of(model, me), me, {.most_samples = kSamples});
      executor.step(kSamples);
    });
    EXPECT_EQ(model.sums(), support::gradients_of(4, 2, kSamples, kSamples));
  });
}

TEST(ExecutorThreads, EachWithARankComputeWhatOneDeviceComputes) {
  const Schedule schedule = make(Kind::kZbv, {.ranks = 4, .microbatches = 8});
  std::vector<comm::Communicator> ranks = comm::open("local:4");
  Model model(schedule, {.stages = {{.forward = 0, .backward_input = 0, .backward_weight = 0}}});
  {
    std::vector<std::jthread> threads;
    for (comm::Communicator& me : ranks) {
      threads.emplace_back([&] {
        Executor executor(schedule, part_of(model, me), me, {.most_samples = kSamples});
        for (int i = 0; i < 20; ++i) executor.step(kSamples);
      });
    }
  }
  std::vector<support::Number> expected =
      support::gradients_of(schedule.stages, 8, kSamples, kSamples);
  for (support::Number& one : expected) one *= 20;
  EXPECT_EQ(model.sums(), expected);
}

/// What each rank's executor threw, made with what `change` makes of the rank's own, and after
/// steps of `samples(rank)`.
struct Own {
  Schedule schedule;
  RankPart part;
  ExecutorOptions options;
  std::uint64_t samples = kSamples;
};
std::array<std::string, 4> errors_of(const std::function<void(int rank, Own& own)>& change,
                                     const std::function<void(Model& model)>& prepare = {}) {
  std::array<std::string, 4> errors;
  leat::support::in_virtual_time([&] {
    const Schedule schedule = make(Kind::kOneFOneB, {.ranks = 4, .microbatches = 8});
    Model model(schedule, {});
    if (prepare) prepare(model);
    on_ranks(4, [&](comm::Communicator& me) {
      Own own{.schedule = schedule,
              .part = part_of(model, me),
              .options = {.most_samples = 2 * kSamples}};
      change(me.rank(), own);
      try {
        Executor executor(own.schedule, own.part, me, own.options);
        executor.step(own.samples);
        executor.step(own.samples);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(me.rank())] = error.what();
      }
    });
  });
  return errors;
}

void expect_all(const std::array<std::string, 4>& errors, const std::string& part) {
  for (const std::string& one : errors) EXPECT_NE(one.find(part), std::string::npos) << one;
}

TEST(ExecutorDisagreement, AboutTheScheduleIsAnErrorOnEveryRank) {
  expect_all(errors_of([](int rank, Own& own) {
               if (rank == 2) own.schedule = make(Kind::kGpipe, {.ranks = 4, .microbatches = 8});
             }),
             "do not agree on the schedule: that of rank 2");
}

TEST(ExecutorDisagreement, AboutOptionsIsAnErrorOnEveryRank) {
  expect_all(errors_of([](int rank, Own& own) {
               if (rank == 1) own.options.capacity = 3;
             }),
             "do not agree on the capacity: that of rank 1");
  expect_all(errors_of([](int rank, Own& own) {
               if (rank == 3) ++own.options.most_samples;
             }),
             "do not agree on most_samples: that of rank 3");
}

TEST(ExecutorDisagreement, OfARankThatRefusesIsAnErrorOnEveryRank) {
  const auto errors = errors_of([](int rank, Own& own) {
    if (rank == 1) own.part.stages.clear();
  });
  EXPECT_NE(errors[1].find("rank 1 has 0 stages"), std::string::npos) << errors[1];
  for (const int rank : {0, 2, 3}) {
    EXPECT_NE(errors[static_cast<std::size_t>(rank)].find("rank 1 has refused it"),
              std::string::npos);
  }
}

TEST(ExecutorDisagreement, AboutTheBytesBetweenStagesIsAnErrorOnEveryRank) {
  class Wide final : public Stage {
   public:
    [[nodiscard]] StageMemory memory() const override { return {.input = 8, .output = 12}; }
    void forward(const Microbatch& /*m*/) override {}
    void backward_input(const Microbatch& /*m*/) override {}
    void backward_weight(const Microbatch& /*m*/) override {}
  } wide;
  expect_all(errors_of([&](int rank, Own& own) {
               if (rank == 1) own.part.stages = {&wide};
             }),
             "the output of stage 1 has 12 bytes, and one of the input of stage 2 has 8");
}

TEST(ExecutorDisagreement, AboutAStepsSamplesIsAnErrorOnEveryRankThatNamesTheShapes) {
  const auto errors = errors_of([](int rank, Own& own) {
    if (rank == 2) own.samples = kSamples + 1;
  });
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_NE(errors[rank].find("leat: pipeline: rank " + std::to_string(rank) + ", cell "),
              std::string::npos)
        << errors[rank];
    EXPECT_NE(errors[rank].find("this rank expects"), std::string::npos) << errors[rank];
  }
}

TEST(ExecutorDisagreement, AStageThatThrowsIsAnErrorOnEveryRankWithItsReason) {
  for (const Op function : {Op::kForward, Op::kBackwardInput, Op::kBackwardWeight}) {
    for (std::size_t stage = 0; stage < 4; ++stage) {
      const auto errors =
          errors_of([](int, Own&) {},
                    [&](Model& model) {
                      model.stages[stage]->hook = [&](Op called, const Microbatch& m) {
                        if (called == function && m.index == 6) {
                          throw std::runtime_error("no more");
                        }
                      };
                    });
      for (std::size_t rank = 0; rank < 4; ++rank) {
        EXPECT_NE(errors[rank].find("leat: pipeline: rank " + std::to_string(rank) + ", cell "),
                  std::string::npos)
            << errors[rank];
        EXPECT_NE(errors[rank].find("microbatch 6): no more"), std::string::npos) << errors[rank];
      }
    }
  }
}

TEST(ExecutorDisagreement, ARankThatLeavesBetweenStepsIsAnErrorOnTheOthers) {
  leat::support::in_virtual_time([] {
    const Schedule schedule = make(Kind::kGpipe, {.ranks = 2, .microbatches = 2});
    Model model(schedule, {});
    on_ranks(2, [&](comm::Communicator& me) {
      Executor executor(schedule, part_of(model, me), me, {.most_samples = kSamples});
      executor.step(kSamples);
      if (me.rank() == 0) {
        EXPECT_THROW(executor.step(kSamples), PipelineError);
      }
    });
  });
}

}  // namespace executor_processes_test
}  // namespace leat::pipeline
