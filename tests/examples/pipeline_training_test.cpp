// Training through a pipeline, with real data: for every kind of schedule the weights have the bits
// of one device, and each step's gradient is that of the whole batch.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "examples/12_pipeline/options.h"
#include "examples/12_pipeline/trainer.h"
#include "leat/comm/communicator.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/pipeline/kinds.h"
#include "tests/examples/first_images.h"
#include "tests/examples/pipeline_one_device.h"

namespace pipelined {
namespace pipeline_training_test {

using leat::feeder::FirstImages;
using leat::feeder::Lease;
using leat::feeder::Prefetcher;
using leat::pipeline::Kind;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSteps = 3;
constexpr std::uint64_t kStepsOfReplicas = 3;
constexpr std::array<std::size_t, 1> kBatchSizes = {60};
#else
constexpr std::uint64_t kSteps = 35;  // more than two epochs
constexpr std::uint64_t kStepsOfReplicas = 20;
constexpr std::array<std::size_t, 2> kBatchSizes = {64, 60};
#endif

// An epoch has 15 or 16 steps, and a rest.
const FirstImages& images() {
  static const FirstImages all(1000);
  return all;
}

struct Case {
  Kind kind;
  std::int32_t stages_per_rank;
  std::size_t batch_size;
};
std::string name_of(const Case& one) {
  return std::string(name(one.kind)) + "_" + std::to_string(one.stages_per_rank) + "_of_" +
         std::to_string(one.batch_size);
}
void PrintTo(const Case& one, std::ostream* out) { *out << name_of(one); }  // NOLINT: GoogleTest's

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [kind, stages] : {std::pair(Kind::kGpipe, 1),
                                     {Kind::kOneFOneB, 1},
                                     {Kind::kOnnx1F1B, 1},
                                     {Kind::kInterleaved1F1B, 2},
                                     {Kind::kLoopedBfs, 1},
                                     {Kind::kLoopedBfs, 2},
                                     {Kind::kZeroBubble, 1},
                                     {Kind::kZeroBubble, 2},
                                     {Kind::kZeroBubbleH2, 1},
                                     {Kind::kZbv, 2},
                                     {Kind::kDualPipeV, 2}}) {
    for (const std::size_t batch_size : kBatchSizes) all.push_back({kind, stages, batch_size});
  }
  return all;
}

Options options_of(const Case& one, std::int32_t ranks) {
  Options options;
  options.shape = {.ranks = ranks, .microbatches = 8, .stages_per_rank = one.stages_per_rank};
  options.kind = one.kind;
  options.batch_size = one.batch_size;
  return options;
}

// The order in which a kind's backwards come: from the last microbatch, or from the first.
bool from_last(const Case& one) { return one.kind == Kind::kLoopedBfs; }

// Some ranks' devices.
Place place_of(std::size_t ranks, std::size_t replica = 0) {
  Place place{.replica = replica};
  for (std::size_t r = 0; r < ranks; ++r) {
    place.devices.push_back(leat::gpu::open("host:" + std::to_string(replica * ranks + r)));
  }
  return place;
}

// Layer by layer.
std::vector<float> of(const Trainer& trainer,
                      leat::gpu::DeviceSpan (PerceptronStage::*part)() const noexcept) {
  std::vector<std::vector<float>> by_stage(trainer.stages().size());
  for (const auto& stage : trainer.stages()) {
    trainer.stream_of(*stage).sync();
    const auto values = floats_of(((*stage).*part)());
    by_stage[stage->number()].assign(values.begin(), values.end());
  }
  std::vector<float> all;
  for (const auto& part_of_all : by_stage) {
    all.insert(all.end(), part_of_all.begin(), part_of_all.end());
  }
  return all;
}

// The same batches as a trainer's, for references on one device. A batch may go when the next one
// is asked for: by then the references' gradients have been looked at.
class Batches {
 public:
  Batches(const leat::gpu::Device& device, const Options& options, std::size_t replica = 0)
      : feed_(images(), device,
              {.batch_size = options.batch_size,
               .seed = options.seed,
               .last_batch = leat::feeder::LastBatch::kDrop,
               .rank = replica,
               .world_size = options.replicas}) {}
  Samples next() {
    batch_.reset();
    while (!batch_) batch_ = feed_.next();
    batch_->await();
    return {(*batch_)["image"].data<std::uint8_t>(), (*batch_)["label"].data<std::uint8_t>(),
            batch_->size()};
  }

 private:
  Prefetcher feed_;
  std::optional<Lease> batch_;
};

class PipelineTraining : public testing::TestWithParam<Case> {};

TEST_P(PipelineTraining, HasTheBitsOfOneDeviceAndTheGradientOfTheWholeBatch) {
  const Case one = GetParam();
  const Options options = options_of(one, 4);
  leat::run([&] {
    const leat::gpu::Device device = leat::gpu::open("host");
    OneDevice reference(device, 1, options.batch_size, options.seed);
    OneDevice whole(device, 1, options.batch_size, options.seed);
    Batches batches(device, options);
    Trainer trainer(place_of(4), schedule_of(options), images(), options);
    for (std::uint64_t step = 0; step < kSteps && !HasFailure(); ++step) {
      SCOPED_TRACE(step);
      trainer.compute_gradient();
      const std::vector<float> gradient = of(trainer, &PerceptronStage::gradient);

      const Samples samples = batches.next();
      reference.zero_gradient();
      reference.add_gradient(samples, 8, from_last(one), options.batch_size);
      EXPECT_TRUE(same_bits(gradient, reference.gradient()));

      whole.set_parameters(reference.parameters());  // those of the trainer
      whole.zero_gradient();
      whole.add_gradient(samples, 1, false, options.batch_size);
      EXPECT_LE(distance(gradient, whole.gradient()), 1e-5 * norm(whole.gradient()));

      trainer.update();
      reference.update(options.learning_rate);
      EXPECT_TRUE(same_bits(of(trainer, &PerceptronStage::parameters), reference.parameters()));
    }
    EXPECT_EQ(trainer.take_metrics().samples, kSteps * options.batch_size);
  });
}

// Of two pipelines of two ranks.
std::vector<std::vector<float>> weights_of_replicas(const Options& options) {
  std::vector<std::vector<float>> weights(2);
  std::vector<std::vector<leat::comm::Communicator>> same;  // by rank, then by replica
  for (int r = 0; r < 2; ++r) same.push_back(leat::comm::open("local:2"));
  leat::TaskGroup group;
  for (std::size_t p = 0; p < 2; ++p) {
    group.go([&, p] {
      Place place = place_of(2, p);
      place.replicas = {&same[0][p], &same[1][p]};
      Trainer trainer(place, schedule_of(options), images(), options);
      for (std::uint64_t step = 0; step < kStepsOfReplicas; ++step) {
        trainer.compute_gradient();
        trainer.update();
      }
      weights[p] = of(trainer, &PerceptronStage::parameters);
    });
  }
  group.wait();
  return weights;
}

TEST_P(PipelineTraining, OfTwoReplicasHasTheBitsOfOneDeviceThatAddsTheSumsOfBoth) {
  Options options = options_of(GetParam(), 2);
  options.replicas = 2;
  leat::run([&] {
    const leat::gpu::Device device = leat::gpu::open("host");
    OneDevice first(device, 1, options.batch_size, options.seed);
    OneDevice second(device, 1, options.batch_size, options.seed);
    Batches of_first(device, options, 0);
    Batches of_second(device, options, 1);
    for (std::uint64_t step = 0; step < kStepsOfReplicas; ++step) {
      first.zero_gradient();
      first.add_gradient(of_first.next(), 8, from_last(GetParam()), options.batch_size);
      second.zero_gradient();
      second.add_gradient(of_second.next(), 8, from_last(GetParam()), options.batch_size);
      std::vector<float> sum = first.gradient();
      const std::vector<float> other = second.gradient();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
      for (OneDevice* const one : {&first, &second}) {
        one->set_gradient(sum);
        one->update(options.learning_rate);
      }
    }
    for (const std::vector<float>& weights : weights_of_replicas(options)) {
      EXPECT_TRUE(same_bits(weights, first.parameters()));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, PipelineTraining, testing::ValuesIn(cases()),
                         [](const auto& one) { return name_of(one.param); });

TEST(PipelineEvaluation, BeforeTheFirstStepIsThatOfOneDeviceAndChangesNoTraining) {
  const Case one{Kind::kZbv, 2, 64};
  const Options options = options_of(one, 4);
  leat::run([&] {
    const leat::gpu::Device device = leat::gpu::open("host");
    OneDevice reference(device, 1, 1000, options.seed);
    Prefetcher feed(images(), device,
                    {.batch_size = 1000, .order = leat::feeder::Order::kSequential});
    for (Lease& all : feed.epoch(0, reference.stream())) {
      reference.evaluate(
          {all["image"].data<std::uint8_t>(), all["label"].data<std::uint8_t>(), all.size()});
    }
    const mnist::Metrics expected = reference.take_metrics();

    Trainer trainer(place_of(4), schedule_of(options), images(), options);
    Trainer other(place_of(4), schedule_of(options), images(), options);
    trainer.evaluate(images());
    const mnist::Metrics metrics = trainer.take_metrics();
    EXPECT_EQ(metrics.samples, 1000U);  // the last batch has 40
    EXPECT_EQ(metrics.correct, expected.correct);
    EXPECT_NEAR(metrics.loss, expected.loss, 1e-9 * expected.loss);
    for (Trainer* const each : {&trainer, &other}) {
      each->compute_gradient();
      each->update();
    }
    EXPECT_TRUE(same_bits(of(trainer, &PerceptronStage::parameters),
                          of(other, &PerceptronStage::parameters)));
  });
}

}  // namespace pipeline_training_test
}  // namespace pipelined
