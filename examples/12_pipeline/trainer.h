// Trains the perceptron through a pipeline: all of its ranks in this process, or one of them.
//
//   Trainer trainer(place, schedule, training, options);
//   while (more) {
//     trainer.compute_gradient();
//     trainer.update();
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "examples/12_pipeline/options.h"
#include "examples/12_pipeline/perceptron.h"
#include "leat/comm/communicator.h"
#include "leat/feeder/dataset.h"
#include "leat/gpu/device.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/schedule.h"

namespace pipelined {

/// Which ranks of which pipeline this process has. What is pointed to outlives the trainer.
struct Place {
  std::vector<leat::gpu::Device> devices;  ///< one for each rank that is here
  /// The ranks of the pipeline, if they are processes: for the executor alone. Null: all are here.
  const leat::comm::Communicator* pipeline = nullptr;
  /// For each rank here, the ranks that have the same stages of other replicas. None: there are
  /// none.
  std::vector<const leat::comm::Communicator*> replicas = {};
  std::size_t replica = 0;  ///< the pipeline's number among its replicas
};

/// One pipeline's training. One fiber or thread calls it; of several processes and replicas, all
/// call compute_gradient() alike. Throws std::invalid_argument, pipeline::PipelineError, GpuError.
class Trainer {
 public:
  /// `data` outlives it. Collective.
  Trainer(const Place& place, const leat::pipeline::Schedule& schedule,
          const leat::feeder::Dataset& data, const Options& options);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  /// Forward and backward of the next batch: gradients are those of the mean loss of all replicas'
  /// samples.
  void compute_gradient();
  /// Enqueues plain SGD.
  void update();
  /// Sends `data` through the forwards, but for a last batch of fewer samples than microbatches.
  void evaluate(const leat::feeder::Dataset& data);

  /// Of the samples since the last call; zero where the last stage is not. Waits.
  [[nodiscard]] mnist::Metrics take_metrics();
  /// The stages that are here. Work on them is enqueued on stream_of().
  [[nodiscard]] const std::vector<std::unique_ptr<PerceptronStage>>& stages() const noexcept {
    return stages_;
  }
  [[nodiscard]] const leat::gpu::StreamRef& stream_of(const PerceptronStage& stage) const;
  [[nodiscard]] const leat::pipeline::Executor& executor() const noexcept { return *executor_; }

 private:
  struct Source;  // a prefetcher for a rank whose stages read samples
  [[nodiscard]] std::vector<std::unique_ptr<Source>> sources_of(const leat::feeder::Dataset& data,
                                                                bool trains) const;
  template <class Run>
  void with_samples(const std::vector<std::unique_ptr<Source>>& sources, const Run& run);

  const Options options_;
  const std::size_t replica_;
  std::vector<std::size_t> rank_of_;  // by stage
  std::vector<std::size_t> here_;     // the ranks
  std::vector<std::unique_ptr<PerceptronStage>> stages_;
  std::optional<leat::pipeline::Executor> executor_;
  std::vector<std::unique_ptr<Source>> sources_;
};

/// A digest of each layer's parameters, 0 for layers that are not here.
[[nodiscard]] std::vector<std::uint64_t> digests(const Trainer& trainer);

}  // namespace pipelined
