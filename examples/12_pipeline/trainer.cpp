#include "examples/12_pipeline/trainer.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "examples/10_data_parallel/train.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/buffer.h"

namespace pipelined {

namespace feeder = leat::feeder;
namespace pipeline = leat::pipeline;
using feeder::Lease;

// The first stage reads images, the last one labels, each from a batch on its own device.
struct Trainer::Source {
  Source(std::size_t number, const feeder::Dataset& data, const leat::gpu::Device& device,
         PerceptronStage* of_images, PerceptronStage* of_labels,
         const feeder::PrefetcherOptions& options)
      : rank(number), images(of_images), labels(of_labels), feed(data, device, options) {}

  // The next batch, for work of `stream`.
  Lease next(const leat::gpu::StreamRef& stream) {
    std::optional<Lease> batch = feed.next();
    if (!batch) batch = feed.next();  // of the next epoch
    batch->on(stream);
    if (images != nullptr) images->read_images((*batch)["image"].data<std::uint8_t>());
    if (labels != nullptr) labels->read_labels((*batch)["label"].data<std::uint8_t>());
    return std::move(*batch);
  }

  const std::size_t rank;
  PerceptronStage* const images;
  PerceptronStage* const labels;
  feeder::Prefetcher feed;
};

Trainer::Trainer(const Place& place, const pipeline::Schedule& schedule,
                 const feeder::Dataset& data, const Options& options)
    : options_(options), replica_(place.replica) {
  const auto stages = static_cast<std::size_t>(schedule.stages);
  if (stages > kLayers) {
    throw std::invalid_argument(std::to_string(stages) + " stages, but " + std::to_string(kLayers) +
                                " layers");
  }
  if (options.batch_size % options.replicas != 0 || data.size() < options.batch_size) {
    throw std::invalid_argument("a batch of " + std::to_string(options.batch_size) +
                                ": a multiple of the replicas is expected, at most " +
                                std::to_string(data.size()));
  }
  const std::uint64_t samples = options.batch_size / options.replicas;  // of this pipeline
  // [executor]
  const auto part_of = [&](std::size_t rank, std::size_t here) {
    pipeline::RankPart part{.device = place.devices[here]};
    if (!place.replicas.empty()) part.replicas = place.replicas[here];
    for (std::size_t s = 0; s < stages; ++s) {
      if (rank_of_[s] != rank) continue;
      stages_.push_back(std::make_unique<PerceptronStage>(part.device, s, stages, options.seed));
      part.stages.push_back(stages_.back().get());
    }
    here_.push_back(rank);
    return part;
  };
  for (const int rank : ranks_of_stages(schedule)) rank_of_.push_back(std::size_t(rank));
  const pipeline::ExecutorOptions room{.most_samples = samples, .capacity = options.capacity};
  if (place.pipeline != nullptr) {  // one of several processes
    executor_.emplace(schedule, part_of(std::size_t(place.pipeline->rank()), 0), *place.pipeline,
                      room);
  } else {
    std::vector<pipeline::RankPart> parts;
    for (std::size_t r = 0; r < schedule.rows.size(); ++r) parts.push_back(part_of(r, r));
    executor_.emplace(schedule, std::move(parts), room);
  }
  // [/executor]
  sources_ = sources_of(data, true);
}

Trainer::~Trainer() = default;

std::vector<std::unique_ptr<Trainer::Source>> Trainer::sources_of(const feeder::Dataset& data,
                                                                  bool trains) const {
  feeder::PrefetcherOptions options{.batch_size = options_.batch_size, .seed = options_.seed};
  if (trains) {
    options.last_batch = feeder::LastBatch::kDrop;
    options.rank = replica_;
    options.world_size = options_.replicas;
  } else {
    options.batch_size /= options_.replicas;
    options.order = feeder::Order::kSequential;
  }
  std::vector<std::unique_ptr<Source>> sources;
  for (const std::size_t rank : here_) {
    PerceptronStage* first = nullptr;
    PerceptronStage* last = nullptr;
    for (const auto& stage : stages_) {
      if (rank_of_[stage->number()] != rank) continue;
      if (stage->is_first()) first = stage.get();
      if (stage->is_last()) last = stage.get();
    }
    if (first == nullptr && last == nullptr) continue;
    sources.push_back(std::make_unique<Source>(rank, data, executor_->stream(rank).device(), first,
                                               last, options));
  }
  return sources;
}

template <class Run>
void Trainer::with_samples(const std::vector<std::unique_ptr<Source>>& sources, const Run& run) {
  std::vector<Lease> batches;  // the same samples, on each device that reads them
  batches.reserve(sources.size());
  for (const auto& source : sources) {
    batches.push_back(source->next(executor_->stream(source->rank)));
  }
  run();
}

// [step]
void Trainer::compute_gradient() {
  for (const auto& stage : stages_) stage->zero_gradient(stream_of(*stage));
  with_samples(sources_, [&] {
    executor_->step(options_.batch_size / options_.replicas, options_.batch_size);
  });
}

void Trainer::update() {
  for (const auto& stage : stages_) stage->update(stream_of(*stage), options_.learning_rate);
}
// [/step]

void Trainer::evaluate(const feeder::Dataset& data) {
  const auto sources = sources_of(data, false);
  const std::uint64_t most = options_.batch_size / options_.replicas;
  const auto least = static_cast<std::uint64_t>(executor_->schedule().microbatches);
  for (std::uint64_t first = 0; first < data.size(); first += most) {
    const std::uint64_t samples = std::min(most, data.size() - first);
    if (samples < least) break;
    with_samples(sources, [&] { executor_->evaluate(samples); });
  }
}

mnist::Metrics Trainer::take_metrics() {
  for (const auto& stage : stages_) {
    if (stage->is_last()) return stage->take_metrics(stream_of(*stage));
  }
  return {};
}

const leat::gpu::StreamRef& Trainer::stream_of(const PerceptronStage& stage) const {
  return executor_->stream(rank_of_[stage.number()]);
}

std::vector<std::uint64_t> digests(const Trainer& trainer) {
  std::vector<std::uint64_t> all(kLayers);
  for (const auto& stage : trainer.stages()) {
    const leat::gpu::StreamRef& stream = trainer.stream_of(*stage);
    const leat::gpu::PinnedBuffer host(stream.device(), stage->parameters().size());
    copy_async(stream, host.span(), stage->parameters());
    stream.sync();
    const auto* values = reinterpret_cast<const float*>(host.data());
    for (std::size_t i = stage->first_layer(); i < stage->end_layer(); ++i) {
      all[i] = data_parallel::digest({values, layer(i).parameters()});
      values += layer(i).parameters();
    }
  }
  return all;
}

}  // namespace pipelined
