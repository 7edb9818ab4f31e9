// What a pipeline is compared with: the same stages on one device, one microbatch after the other,
// without an executor. The host device alone: its memory is the CPU's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "examples/12_pipeline/perceptron.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/pipeline/stage.h"

namespace pipelined {

// Of the host device.
inline std::span<float> floats_of(const leat::gpu::DeviceSpan& memory) {
  return {reinterpret_cast<float*>(memory.data()), memory.size() / sizeof(float)};
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

inline double distance(std::vector<float> a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return norm(a);
}

// Samples on the device.
struct Samples {
  const std::uint8_t* images;
  const std::uint8_t* labels;
  std::uint64_t count;
};

class OneDevice {
 public:
  OneDevice(const leat::gpu::Device& device, std::size_t stages, std::uint64_t most_samples,
            std::uint64_t seed)
      : stream_(device) {
    for (std::size_t s = 0; s < stages; ++s) {
      stages_.push_back(std::make_unique<PerceptronStage>(device, s, stages, seed));
      const leat::pipeline::StageMemory needs = stages_.back()->memory();
      memory_.push_back({{device, needs.kept * most_samples},
                         {device, needs.left * most_samples},
                         {device, needs.output * most_samples},
                         {device, needs.output * most_samples}});
    }
  }

  void zero_gradient() {
    for (const auto& stage : stages_) stage->zero_gradient(stream_);
  }

  // Adds the gradient of `batch` to what there is, microbatch after microbatch: from the first, or
  // from the last. `of` is N.
  void add_gradient(const Samples& batch, std::int32_t microbatches, bool from_last,
                    std::uint64_t of) {
    for (std::int32_t i = 0; i < microbatches; ++i) {
      const auto m = microbatch(from_last ? microbatches - 1 - i : i, microbatches, batch, of);
      forward(batch, m);
      for (std::size_t s = stages_.size(); s-- > 0;) {
        stages_[s]->backward_input(at_stage(s, m));
        stages_[s]->backward_weight(at_stage(s, m));
      }
    }
  }

  void evaluate(const Samples& batch) {
    auto m = microbatch(0, 1, batch, batch.count);
    m.evaluates = true;
    forward(batch, m);
  }

  void update(float learning_rate) {
    for (const auto& stage : stages_) stage->update(stream_, learning_rate);
  }

  [[nodiscard]] mnist::Metrics take_metrics() { return stages_.back()->take_metrics(stream_); }

  // Of all layers, one after the other. Waits.
  [[nodiscard]] std::vector<float> parameters() const {
    return all([](const PerceptronStage& stage) { return stage.parameters(); });
  }
  [[nodiscard]] std::vector<float> gradient() const {
    return all([](const PerceptronStage& stage) { return stage.gradient(); });
  }
  void set_parameters(std::span<const float> values) {
    set(values, [](const PerceptronStage& stage) { return stage.parameters(); });
  }
  void set_gradient(std::span<const float> values) {
    set(values, [](const PerceptronStage& stage) { return stage.gradient(); });
  }

  [[nodiscard]] const leat::gpu::Stream& stream() const noexcept { return stream_; }

 private:
  // Of one microbatch at a stage.
  struct Memory {
    leat::gpu::DeviceBuffer kept, left, output, output_gradient;
  };

  leat::pipeline::Microbatch microbatch(std::int32_t index, std::int32_t count,
                                        const Samples& batch, std::uint64_t of) const {
    const auto b = static_cast<std::uint64_t>(index);
    const auto all = static_cast<std::uint64_t>(count);
    leat::pipeline::Microbatch m{.stream = stream_};
    m.index = index;
    m.samples = batch.count / all + (b < batch.count % all ? 1 : 0);
    m.first = b * (batch.count / all) + std::min(b, batch.count % all);
    m.weight = static_cast<double>(m.samples) / static_cast<double>(of);
    return m;
  }

  leat::pipeline::Microbatch at_stage(std::size_t s, leat::pipeline::Microbatch m) const {
    m.stage = static_cast<std::int32_t>(s);
    m.kept = memory_[s].kept.span();
    m.left = memory_[s].left.span();
    m.output = memory_[s].output.span();
    m.output_gradient = memory_[s].output_gradient.span();
    if (s == 0) return m;
    m.input = memory_[s - 1].output.span();
    m.input_gradient = memory_[s - 1].output_gradient.span();
    return m;
  }

  void forward(const Samples& batch, const leat::pipeline::Microbatch& m) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      stages_[s]->read_images(batch.images);
      stages_[s]->read_labels(batch.labels);
      stages_[s]->forward(at_stage(s, m));
    }
  }

  template <class Of>
  std::vector<float> all(const Of& of) const {
    stream_.sync();
    std::vector<float> values;
    for (const auto& stage : stages_) {
      const std::span<const float> part = floats_of(of(*stage));
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }
  template <class Of>
  void set(std::span<const float> values, const Of& of) {
    stream_.sync();
    for (const auto& stage : stages_) {
      const std::span<float> part = floats_of(of(*stage));
      std::copy_n(values.begin(), part.size(), part.begin());
      values = values.subspan(part.size());
    }
  }

  leat::gpu::Stream stream_;
  std::vector<std::unique_ptr<PerceptronStage>> stages_;
  std::vector<Memory> memory_;
};

}  // namespace pipelined
