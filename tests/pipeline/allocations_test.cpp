// What a step allocates on the heap: nothing, once it is warm. A program of its own, because it
// replaces the global operator new.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/device.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/kinds.h"
#include "leat/pipeline/text.h"
#include "tests/support/counting_new.h"

namespace leat::pipeline {
namespace allocations_test {

using leat::support::allocations_of;

constexpr std::uint64_t kSamples = 10;
constexpr int kTimes = 20;
constexpr int kRounds = 11;  // of allocations_of

/// Each function is a kernel.
class Plain final : public Stage {
 public:
  Plain(bool is_first, bool is_last) : is_first_(is_first), is_last_(is_last) {}
  [[nodiscard]] StageMemory memory() const override {
    constexpr std::size_t kBytes = 512;
    return {.input = is_first_ ? 0 : kBytes, .output = is_last_ ? 0 : kBytes, .kept = 8, .left = 8};
  }
  void forward(const Microbatch& m) override { write(m.stream, m.output); }
  void backward_input(const Microbatch& m) override { write(m.stream, m.input_gradient); }
  void backward_weight(const Microbatch& m) override { write(m.stream, m.left); }
  [[nodiscard]] std::vector<comm::Gradient> gradients() const override {
    return {{.name = "w", .data = gpu::DeviceSpan(gradient_.get(), 4 * sizeof(float))}};
  }

 private:
  static void write(const gpu::StreamRef& stream, const gpu::DeviceSpan& span) {
    stream.launch_host([data = span.data(), bytes = span.size()] {
      for (std::size_t i = 0; i < bytes; ++i) data[i] = std::byte{1};
    });
  }
  const bool is_first_;
  const bool is_last_;
  const std::unique_ptr<float[]> gradient_ = std::make_unique<float[]>(4);
};

struct Model {
  explicit Model(const Schedule& schedule) {
    for (std::int32_t s = 0; s < schedule.stages; ++s) {
      stages.push_back(std::make_unique<Plain>(s == 0, s + 1 == schedule.stages));
    }
    const std::vector<int> ranks = ranks_of_stages(schedule);
    for (std::size_t rank = 0; rank < schedule.rows.size(); ++rank) {
      parts.push_back({.device = gpu::open("host"), .stages = {}});
      for (std::size_t s = 0; s < stages.size(); ++s) {
        if (ranks[s] == static_cast<int>(rank)) parts.back().stages.push_back(stages[s].get());
      }
    }
  }
  std::vector<std::unique_ptr<Plain>> stages;
  std::vector<RankPart> parts;
};

void expect_none(const Schedule& schedule) {
  for (const int workers : {1, 2}) {
    run(
        [&] {
          Model model(schedule);
          Executor executor(schedule, model.parts, {.most_samples = kSamples});
          EXPECT_EQ(allocations_of([&] {
                      for (int i = 0; i < kTimes; ++i) {
                        executor.step(kSamples - static_cast<std::uint64_t>(i % 3));
                        executor.evaluate(kSamples);
                      }
                    }),
                    0U);
        },
        {.workers = workers});
  }
}

TEST(PipelineAllocations, AreCounted) {
  EXPECT_GT(allocations_of([] { static_cast<void>(make(Kind::kGpipe, {.ranks = 2})); }), 0U);
}

TEST(PipelineAllocations, OfAStep) {
  expect_none(make(Kind::kOneFOneB, {.ranks = 3, .microbatches = 7}));
  expect_none(make(Kind::kZbv, {.ranks = 2, .microbatches = 4}));
}

TEST(PipelineAllocations, OfAStepWhoseCellsHaveSeveralActions) {
  expect_none(
      parse("0F0,0SEND_F0,0F1,0SEND_F1+0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1B0+1RECV_F1,1SEND_B0+1F1,1B1,1SEND_B1\n"));
}

TEST(PipelineAllocations, OfAStepBetweenRanksOfACommunicatorWithReplicas) {
  const Schedule schedule = make(Kind::kOneFOneB, {.ranks = 2, .microbatches = 4});
  run([&] {
    // World rank 2 d + r is rank r of replica d.
    std::vector<comm::Communicator> world = comm::open("local:4");
    Model models[] = {Model(schedule), Model(schedule)};
    TaskGroup group;
    const auto train = [&](int me, const auto& steps) {
      const auto rank = static_cast<std::size_t>(me % 2);
      const comm::Communicator& mine = world[static_cast<std::size_t>(me)];
      const comm::Communicator ranks = *mine.split(me / 2);
      const comm::Communicator replicas = *mine.split(me % 2);
      RankPart part = models[me / 2].parts[rank];
      part.replicas = &replicas;
      Executor executor(schedule, part, ranks, {.most_samples = kSamples});
      steps([&] {
        for (int i = 0; i < kTimes; ++i) executor.step(kSamples, 2 * kSamples);
      });
    };
    for (int me = 1; me < 4; ++me) {
      group.go([&, me] {
        train(me, [](const auto& step) {
          for (int i = 0; i < kRounds; ++i) step();
        });
      });
    }
    train(0, [](const auto& step) { EXPECT_EQ(allocations_of(step), 0U); });
    group.wait();
  });
}

}  // namespace allocations_test
}  // namespace leat::pipeline
