// A model for tests of the executor: stages that compute on whole numbers, so that a value of
// another microbatch, of another stage, or of memory that was used again changes the result; and
// the same, one microbatch after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/csp/base/random.h"
#include "leat/csp/clock.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/host_model.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/simulate.h"
#include "leat/pipeline/stage.h"

namespace leat::pipeline::support {

using Number = std::uint64_t;

/// What one sample becomes, and what it adds to a stage's gradient.
struct Sample {
  static Number first(std::uint64_t sample) { return mix(sample + 1); }
  static Number forward(Number x, Number stage) { return mix(x + 1'000 + stage); }
  static Number kept(Number x, Number stage) { return mix(x + 2'000 + stage); }
  static Number loss_gradient(Number output, double weight) {
    return mix(output + static_cast<Number>(weight * 1e6));
  }
  static Number input_gradient(Number gradient, Number x, Number kept) {
    return mix(gradient ^ mix(x ^ mix(kept)));
  }
  static Number left(Number gradient, Number output) { return mix(gradient + output); }
  static Number weight_gradient(Number gradient, Number x, Number left) {
    return mix(gradient + 3 * x + 5 * left);
  }
};

/// A stage on a host device, each of whose functions is a kernel that takes the time of its cost.
class CountingStage final : public Stage {
 public:
  CountingStage(std::int32_t stage, std::int32_t stages, StageCost cost)
      : stage_(static_cast<Number>(stage)), is_last_(stage + 1 == stages), cost_(cost) {}

  [[nodiscard]] StageMemory memory() const override {
    constexpr std::size_t kBytes = sizeof(Number);
    return {.input = stage_ == 0 ? 0 : kBytes,
            .output = is_last_ ? 0 : kBytes,
            .kept = 2 * kBytes,  // the input of the first stage and the output of the last, too
            .left = kBytes};
  }
  void forward(const Microbatch& m) override {
    if (hook) hook(Op::kForward, m);
    m.stream.launch_host(
        [this, m] {
          for (std::uint64_t i = 0; i < m.samples; ++i) {
            const Number x =
                stage_ == 0 ? Sample::first(first_sample + m.first + i) : at(m.input, i);
            at(m.kept, 2 * i) = Sample::kept(x, stage_);
            at(m.kept, 2 * i + 1) = stage_ == 0 ? x : Sample::forward(x, stage_);
            if (!is_last_) at(m.output, i) = Sample::forward(x, stage_);
            if (m.evaluates) evaluated += Sample::forward(x, stage_);
          }
        },
        Duration(cost_.forward));
  }
  void backward_input(const Microbatch& m) override {
    if (hook) hook(Op::kBackwardInput, m);
    m.stream.launch_host(
        [this, m] {
          for (std::uint64_t i = 0; i < m.samples; ++i) {
            const Number g = gradient(m, i);
            at(m.left, i) = Sample::left(g, output(m, i));
            if (stage_ == 0) continue;
            at(m.input_gradient, i) = Sample::input_gradient(g, at(m.input, i), at(m.kept, 2 * i));
          }
        },
        Duration(cost_.backward_input));
  }
  void backward_weight(const Microbatch& m) override {
    if (hook) hook(Op::kBackwardWeight, m);
    m.stream.launch_host(
        [this, m] {
          for (std::uint64_t i = 0; i < m.samples; ++i) {
            const Number x = stage_ == 0 ? at(m.kept, 2 * i + 1) : at(m.input, i);
            sum += Sample::weight_gradient(gradient(m, i), x, at(m.left, i));
          }
        },
        Duration(cost_.backward_weight));
  }

  [[nodiscard]] std::vector<comm::Gradient> gradients() const override {
    return {{.name = "stage " + std::to_string(stage_),
             .data = gpu::DeviceSpan(const_cast<Number*>(&sum), sizeof(sum)),
             .dtype = gpu::DType::kInt64}};
  }
  void unshard(const gpu::StreamRef& stream) override {
    stream.launch_host([this] { ++unshards; });
  }
  void reshard(const gpu::StreamRef& stream) override {
    stream.launch_host([this] { ++reshards; });
  }

  std::uint64_t first_sample = 0;  // of the whole batch's, that this replica has
  int unshards = 0;
  int reshards = 0;
  std::function<void(Op, const Microbatch&)> hook;  // called first, if there is one
  Number sum = 0;                                   // the gradient that has accumulated
  Number evaluated = 0;                             // of outputs

 private:
  static Number& at(const gpu::DeviceSpan& span, std::uint64_t i) {
    if ((i + 1) * sizeof(Number) > span.size()) throw std::logic_error("outside of a view");
    return reinterpret_cast<Number*>(span.data())[i];
  }
  Number output(const Microbatch& m, std::uint64_t i) const {
    return is_last_ && stage_ != 0 ? at(m.kept, 2 * i + 1)
           : is_last_              ? Sample::forward(at(m.kept, 2 * i + 1), stage_)
                                   : at(m.output, i);
  }
  Number gradient(const Microbatch& m, std::uint64_t i) const {
    return is_last_ ? Sample::loss_gradient(output(m, i), m.weight) : at(m.output_gradient, i);
  }

  const Number stage_;
  const bool is_last_;
  const StageCost cost_;
};

/// The gradients that the stages must have after a step of `samples` of `of` samples, from
/// `first_sample` on.
inline std::vector<Number> gradients_of(std::int32_t stages, std::uint64_t microbatches,
                                        std::uint64_t samples, std::uint64_t of,
                                        std::uint64_t first_sample = 0) {
  const auto count = static_cast<std::size_t>(stages);
  std::vector<Number> sums(count);
  std::uint64_t sample = first_sample;
  for (std::uint64_t m = 0; m < microbatches; ++m) {
    const std::uint64_t n = samples / microbatches + (m < samples % microbatches ? 1 : 0);
    for (std::uint64_t i = 0; i < n; ++i, ++sample) {
      std::vector<Number> x = {Sample::first(sample)};
      for (std::size_t s = 0; s < count; ++s) x.push_back(Sample::forward(x.back(), s));
      Number g = Sample::loss_gradient(x.back(), static_cast<double>(n) / static_cast<double>(of));
      for (std::size_t s = count; s-- > 0;) {
        sums[s] += Sample::weight_gradient(g, x[s], Sample::left(g, x[s + 1]));
        g = Sample::input_gradient(g, x[s], Sample::kept(x[s], s));
      }
    }
  }
  return sums;
}

/// The stages of a schedule, and a host device for each rank. Made on a fiber.
class Model {
 public:
  Model(const Schedule& schedule, const CostModel& costs) : ranks_(ranks_of_stages(schedule)) {
    for (std::int32_t stage = 0; stage < schedule.stages; ++stage) {
      stages.push_back(std::make_unique<CountingStage>(stage, schedule.stages, costs.of(stage)));
    }
    for (std::size_t rank = 0; rank < schedule.rows.size(); ++rank) {
      devices.push_back(gpu::open_host({}, static_cast<int>(rank)));
    }
  }
  [[nodiscard]] RankPart part(std::size_t rank) const {
    RankPart part{.device = devices[rank], .stages = {}};
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      if (ranks_[stage] == static_cast<int>(rank)) part.stages.push_back(stages[stage].get());
    }
    return part;
  }
  [[nodiscard]] std::vector<RankPart> parts() const {
    std::vector<RankPart> all;
    for (std::size_t rank = 0; rank < devices.size(); ++rank) all.push_back(part(rank));
    return all;
  }
  [[nodiscard]] std::vector<Number> sums() const {
    std::vector<Number> all;
    for (const auto& stage : stages) all.push_back(stage->sum);
    return all;
  }

  std::vector<std::unique_ptr<CountingStage>> stages;
  std::vector<gpu::Device> devices;

 private:
  std::vector<int> ranks_;
};

}  // namespace leat::pipeline::support
