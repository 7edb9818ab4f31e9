// The well-known schedules, and those that torch wrote, on an executor in virtual time: they take
// what simulate() says, use the memory that is predicted, and compute what one device computes.
#include "leat/pipeline/kinds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/pipeline/check.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/simulate.h"
#include "leat/pipeline/text.h"
#include "tests/pipeline/executor/support/model.h"
#include "tests/support/run.h"

namespace leat::pipeline {
namespace executor_kinds_test {

using support::Model;

/// The most activations of each stage of a rank that live at once, by the order of its row.
std::vector<std::int64_t> peaks_of(const Schedule& schedule, std::size_t rank) {
  const std::vector<int> ranks = ranks_of_stages(schedule);
  std::vector<std::int64_t> live(ranks.size());
  std::vector<std::int64_t> peak(ranks.size());
  for (const Cell& cell : schedule.rows[rank]) {
    for (const Action& one : cell) {
      const auto stage = static_cast<std::size_t>(one.stage);
      if (one.op == Op::kForward) peak[stage] = std::max(peak[stage], ++live[stage]);
      if (one.op == Op::kBackward || one.op == Op::kBackwardWeight) --live[stage];
    }
  }
  std::vector<std::int64_t> own;
  for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
    if (ranks[stage] == static_cast<int>(rank)) own.push_back(peak[stage]);
  }
  return own;
}

/// Bytes of the activations of an order: of each stage, its peak times what a microbatch takes.
std::size_t bytes_of(const Schedule& order, std::size_t rank, const Model& model,
                     std::uint64_t samples) {
  const std::vector<int> ranks = ranks_of_stages(order);
  const std::vector<std::int64_t> peaks = peaks_of(order, rank);
  std::size_t bytes = 0;
  std::size_t own = 0;
  for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
    if (ranks[stage] != static_cast<int>(rank)) continue;
    const StageMemory memory = model.stages[stage]->memory();
    const bool is_last = stage + 1 == ranks.size();
    const bool sends = stage > 0 && ranks[stage - 1] != static_cast<int>(rank);
    std::size_t slot = 0;
    for (const std::size_t part : {memory.input, memory.output, memory.kept, memory.left,
                                   is_last ? 0 : memory.output, sends ? memory.input : 0}) {
      slot += (part * samples + 255) / 256 * 256;
    }
    bytes += slot * static_cast<std::size_t>(peaks[own++]);
  }
  return bytes;
}

/// Runs a step with uneven stages, a link and a capacity of that seed.
void expect_as_simulated(const Schedule& schedule, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int end) {
    return std::uniform_int_distribution<int>(0, end - 1)(random);
  };
  CostModel costs{.stages = {}, .link = below(4)};
  for (std::int32_t s = 0; s < schedule.stages; ++s) {
    costs.stages.push_back(
        {.forward = 1 + below(9), .backward_input = 1 + below(9), .backward_weight = below(9)});
  }
  const Capacities known = capacities(lower(schedule));
  ASSERT_TRUE(known.to_run.has_value());
  ExecutorOptions options{.most_samples = 3 * static_cast<std::uint64_t>(schedule.microbatches) - 1,
                          .link = Duration(costs.link)};
  if (below(2) == 0) options.capacity = *known.to_run + below(3);
  leat::support::in_virtual_time([&] {
    Model model(schedule, costs);
    Executor executor(schedule, model.parts(), options);
    costs.capacity = executor.capacity();
    if (!options.capacity.has_value()) {
      EXPECT_EQ(executor.capacity(), is_lowered(schedule) ? *known.to_run : *known.full_speed);
    }
    const Simulation expected = simulate(schedule, costs);
    executor.step(options.most_samples);
    EXPECT_EQ(leat::support::elapsed().count(), expected.makespan);
    EXPECT_EQ(model.sums(), support::gradients_of(schedule.stages,
                                                  static_cast<std::uint64_t>(schedule.microbatches),
                                                  options.most_samples, options.most_samples));
    executor.evaluate(options.most_samples);  // keeps nothing
    const ExecutorStats stats = executor.stats();
    ASSERT_EQ(stats.ranks.size(), schedule.rows.size());
    for (std::size_t rank = 0; rank < stats.ranks.size(); ++rank) {
      EXPECT_EQ(stats.ranks[rank].peak_activations, peaks_of(schedule, rank));
      if (stats.ranks[rank].peak_activations.size() == 1) {
        EXPECT_EQ(stats.ranks[rank].peak_activations.front(),
                  expected.ranks[rank].peak_activations);
      }
      if (!is_lowered(schedule)) {  // otherwise a Recv may come long before its F
        EXPECT_EQ(stats.ranks[rank].device_bytes, bytes_of(schedule, rank, model, 3));
      }
      const gpu::MemoryUse use = model.devices[rank].memory();
      EXPECT_EQ(use.device.peak, stats.ranks[rank].device_bytes);
      EXPECT_EQ(use.pinned.peak, stats.ranks[rank].pinned_bytes);
    }
  });
}

class ExecutorKinds : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ExecutorKinds, testing::ValuesIn(kinds().begin(), kinds().end()),
                         [](const testing::TestParamInfo<Kind>& kind) {
                           return std::string(name(kind.param));
                         });

TEST_P(ExecutorKinds, TakeWhatIsSimulatedForAnyShapeStagesLinkAndCapacity) {
  std::uint32_t seed = 0;
  int run = 0;
  for (std::int32_t ranks = 1; ranks <= 8; ++ranks) {
    for (std::int32_t microbatches = 1; microbatches <= 12; ++microbatches) {
      for (const std::int32_t each : {0, 3}) {
        if (leat::support::is_left_out(static_cast<int>(++seed))) continue;
        std::optional<Schedule> schedule;
        try {
          schedule = make(GetParam(),
                          {.ranks = ranks, .microbatches = microbatches, .stages_per_rank = each});
        } catch (const std::invalid_argument&) {  // there is no such one
          continue;
        }
        SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(microbatches) +
                     " microbatches, seed " + std::to_string(seed));
        expect_as_simulated(*schedule, seed);
        if (HasFailure()) return;
        ++run;
      }
    }
  }
  EXPECT_GT(run, leat::support::rounds(20));
}

TEST(ExecutorFiles, ThatTorchWroteTakeWhatIsSimulated) {
  int run = 0;
  for (const auto& file : std::filesystem::directory_iterator("tests/pipeline/data/torch")) {
    if (file.path().extension() != ".csv") continue;
    SCOPED_TRACE(file.path());
    const Schedule schedule = read_schedule(file.path());
    const CheckResult result = check(schedule);
    if (!result.capacities.to_run.has_value()) continue;  // torch's export of 1F1B
    expect_as_simulated(schedule, static_cast<std::uint32_t>(++run));
  }
  EXPECT_GT(run, 15);
}

}  // namespace executor_kinds_test
}  // namespace leat::pipeline
