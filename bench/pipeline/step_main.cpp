// A training step of examples/12_pipeline's perceptron, 64 samples in 8 microbatches, with its
// stages in one process or in one of mpirun's each: a contestant of bench/peers/pipeline.
//
//   bench_pipeline_step local|mpi <ranks> <kind> <steps of a block> <blocks>
//
// Prints rank 0's medians of the blocks, in nanoseconds: a step (its forwards, backwards and
// transfers; no update), and what the same functions take on one device, one microbatch behind the
// other. Each rank checks that both ways come to the same gradient, bit by bit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "examples/12_pipeline/perceptron.h"
#include "leat/comm/communicator.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/kinds.h"

namespace {

namespace gpu = leat::gpu;
using leat::pipeline::Microbatch;
using leat::pipeline::StageMemory;
using pipelined::PerceptronStage;

constexpr std::uint64_t kSamples = 64;
constexpr std::int32_t kMicrobatches = 8;
constexpr std::uint64_t kEach = kSamples / kMicrobatches;
constexpr std::uint64_t kSeed = 1;

using Stages = std::vector<std::unique_ptr<PerceptronStage>>;

/// Images and labels of a step, always the same, in a device's memory.
class Samples {
 public:
  explicit Samples(const gpu::Device& device)
      : images_(device, kSamples * mnist::kPixels), labels_(device, kSamples) {
    const gpu::PinnedBuffer staging(device, images_.size());
    const gpu::Stream stream(device);
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      state = state * 1664525U + 1013904223U;
      staging.data()[i] = static_cast<std::byte>(state >> 24);
    }
    copy_async(stream, images_.span(), staging.span());
    stream.sync();
    for (std::size_t i = 0; i < kSamples; ++i) {
      staging.data()[i] = static_cast<std::byte>(i * 7 % mnist::kClasses);
    }
    copy_async(stream, labels_.span(), staging.subspan(0, kSamples));
    stream.sync();
  }
  void give(PerceptronStage& stage) const {
    stage.read_images(reinterpret_cast<const std::uint8_t*>(images_.data()));
    stage.read_labels(reinterpret_cast<const std::uint8_t*>(labels_.data()));
  }

 private:
  gpu::DeviceBuffer images_, labels_;
};

/// All stages on one device, without a pipeline.
class Alone {
 public:
  explicit Alone(std::size_t stages)
      : device_(gpu::open("host:100")), stream_(device_), samples_(device_) {
    for (std::size_t i = 0; i < stages; ++i) {
      stages_.push_back(std::make_unique<PerceptronStage>(device_, i, stages, kSeed));
      samples_.give(*stages_.back());
      const StageMemory memory = stages_.back()->memory();
      for (const std::size_t bytes : {memory.output, memory.kept, memory.left, memory.input}) {
        buffers_.emplace_back(device_, std::max<std::size_t>(bytes * kEach, 1));
      }
    }
  }

  void step() {
    for (std::int32_t index = 0; index < kMicrobatches; ++index) {
      for (std::size_t s = 0; s < stages_.size(); ++s) stages_[s]->forward(of(s, index));
      for (std::size_t s = stages_.size(); s-- > 0;) {
        stages_[s]->backward_input(of(s, index));
        stages_[s]->backward_weight(of(s, index));
      }
    }
    stream_.sync();
  }
  /// Nanoseconds of one microbatch's forward and backward, of each stage.
  [[nodiscard]] std::vector<double> times() {
    std::vector<double> found;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      for (const bool forward : {true, false}) {
        const leat::TimePoint start = leat::SteadyClock::instance().now();
        for (std::int32_t index = 0; index < kMicrobatches; ++index) {
          if (forward) {
            stages_[s]->forward(of(s, index));
          } else {
            stages_[s]->backward_input(of(s, index));
            stages_[s]->backward_weight(of(s, index));
          }
        }
        stream_.sync();
        const leat::Duration taken = leat::SteadyClock::instance().now() - start;
        found.push_back(static_cast<double>(taken.count()) / kMicrobatches);
      }
    }
    return found;
  }
  void zero_gradients() const {
    for (const auto& stage : stages_) stage->zero_gradient(stream_);
    stream_.sync();
  }
  [[nodiscard]] const PerceptronStage& stage(std::size_t s) const { return *stages_[s]; }

 private:
  enum { kOutput, kKept, kLeft, kInputGradient, kBuffers };  // of a stage

  [[nodiscard]] gpu::DeviceSpan buffer(std::size_t stage, int which, std::size_t bytes) const {
    return bytes == 0 ? gpu::DeviceSpan()
                      : buffers_[stage * kBuffers + static_cast<std::size_t>(which)].span();
  }
  [[nodiscard]] Microbatch of(std::size_t s, std::int32_t index) const {
    const StageMemory memory = stages_[s]->memory();
    return {.stream = stream_,
            .stage = static_cast<std::int32_t>(s),
            .index = index,
            .first = static_cast<std::uint64_t>(index) * kEach,
            .samples = kEach,
            .weight = static_cast<double>(kEach) / static_cast<double>(kSamples),
            .input = s == 0 ? gpu::DeviceSpan() : buffer(s - 1, kOutput, memory.input),
            .output = buffer(s, kOutput, memory.output),
            .kept = buffer(s, kKept, memory.kept),
            .left = buffer(s, kLeft, memory.left),
            .output_gradient = s + 1 == stages_.size()
                                   ? gpu::DeviceSpan()
                                   : buffer(s + 1, kInputGradient, memory.output),
            .input_gradient = buffer(s, kInputGradient, memory.input)};
  }

  gpu::Device device_;
  gpu::Stream stream_;
  Samples samples_;
  Stages stages_;
  std::vector<gpu::DeviceBuffer> buffers_;
};

/// A rank of this process, or all of them.
struct Ranks {
  std::vector<std::unique_ptr<Samples>> samples;
  Stages stages;  // of each part, one
  std::vector<leat::pipeline::RankPart> parts;

  void add(std::size_t rank, std::size_t ranks) {
    const gpu::Device device = gpu::open("host:" + std::to_string(rank));
    samples.push_back(std::make_unique<Samples>(device));
    stages.push_back(std::make_unique<PerceptronStage>(device, rank, ranks, kSeed));
    samples.back()->give(*stages.back());
    parts.push_back({.device = device, .stages = {stages.back().get()}});
  }
};

struct Options {
  bool is_mpi = false;
  std::int32_t ranks = 2;
  leat::pipeline::Kind kind = leat::pipeline::Kind::kOneFOneB;
  int steps = 1;
  int blocks = 1;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

template <class F>
double nanoseconds_of(int steps, const F& step) {
  const leat::TimePoint start = leat::SteadyClock::instance().now();
  for (int i = 0; i < steps; ++i) step();
  return static_cast<double>((leat::SteadyClock::instance().now() - start).count()) / steps;
}

void measure(const Options& options) {
  const leat::pipeline::Schedule schedule =
      make(options.kind, {.ranks = options.ranks, .microbatches = kMicrobatches});
  std::optional<leat::comm::Communicator> world;
  Ranks mine;
  std::size_t rank = 0;
  const auto ranks = static_cast<std::size_t>(options.ranks);
  if (options.is_mpi) {
    world = std::move(leat::comm::open("mpi").front());
    if (world->size() != options.ranks) throw std::invalid_argument("another number of processes");
    rank = static_cast<std::size_t>(world->rank());
    mine.add(rank, ranks);
  } else {
    for (std::size_t r = 0; r < ranks; ++r) mine.add(r, ranks);
  }
  const leat::pipeline::ExecutorOptions how{.most_samples = kSamples};
  std::optional<leat::comm::Communicator> of_executor;
  std::optional<leat::pipeline::Executor> executor;
  if (options.is_mpi) {
    of_executor = world->duplicate();
    executor.emplace(schedule, std::move(mine.parts.front()), *of_executor, how);
  } else {
    executor.emplace(schedule, std::move(mine.parts), how);
  }
  const auto barrier = [&] {
    if (world) world->barrier().await();
  };

  Alone alone(ranks);
  executor->step(kSamples);
  alone.step();
  for (std::size_t i = 0; i < mine.stages.size(); ++i) {
    const gpu::DeviceSpan one = mine.stages[i]->gradient();
    const gpu::DeviceSpan other = alone.stage(rank + i).gradient();
    if (one.size() != other.size() || std::memcmp(one.data(), other.data(), one.size()) != 0) {
      throw std::runtime_error("the gradient of stage " + std::to_string(rank + i) +
                               " is another than without a pipeline");
    }
  }

  std::vector<double> steps;
  std::vector<std::vector<double>> computing(2 * ranks);
  for (int block = 0; block <= options.blocks; ++block) {
    barrier();
    steps.push_back(nanoseconds_of(options.steps, [&] { executor->step(kSamples); }));
    barrier();
    if (rank == 0) {  // the others wait
      alone.zero_gradients();
      for (int i = 0; i < options.steps && block > 0; ++i) {
        const std::vector<double> times = alone.times();
        for (std::size_t at = 0; at < times.size(); ++at) computing[at].push_back(times[at]);
      }
    }
  }
  barrier();
  if (rank != 0) return;
  std::printf("%.0f", median({steps.begin() + 1, steps.end()}));  // the first block warms up
  for (const std::vector<double>& times : computing) std::printf(" %.0f", median(times));
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "arguments: local|mpi RANKS KIND STEPS BLOCKS\n");
    return 2;
  }
  try {
    const std::optional<leat::pipeline::Kind> kind = leat::pipeline::kind_named(argv[3]);
    if (!kind) throw std::invalid_argument(std::string("there is no kind ") + argv[3]);
    const Options options{.is_mpi = std::strcmp(argv[1], "mpi") == 0,
                          .ranks = std::atoi(argv[2]),
                          .kind = *kind,
                          .steps = std::max(1, std::atoi(argv[4])),
                          .blocks = std::max(1, std::atoi(argv[5]))};
    // In one process as many workers as CPUs; a process of mpirun's has a thread of MPI's besides.
    leat::run([&] { measure(options); }, {.workers = options.is_mpi ? 1 : 0});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
