// Trains a perceptron on MNIST through a pipeline: each rank has a device and some of the layers,
// and a batch goes through in microbatches, by any schedule.
//
//   pipeline --kind zero_bubble                 four fibers of this process
//   mpirun -np 4 pipeline --transport mpi       four processes: the weights have the same bits
//   pipeline --ranks 2 --replicas 2             two pipelines, which share each batch
//
// With --ranks 1 --kind gpipe it is a training on one device, whose weights have the same bits too.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "examples/03_mnist/output.h"
#include "examples/10_data_parallel/train.h"
#include "examples/12_pipeline/options.h"
#include "examples/12_pipeline/trainer.h"
#include "leat/comm/communicator.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/gpu/device.h"

namespace {

using leat::comm::Communicator;
using leat::feeder::Mnist;
using leat::pipeline::Schedule;
using mnist::Metrics;
using pipelined::Options;
using pipelined::Place;
using pipelined::Trainer;

// What a process, or a replica in it, has after the training.
struct Outcome {
  std::vector<std::uint64_t> digests;  // by layer
  Metrics trained{}, tested{};
  double seconds = 0.0;  // of all steps
  std::string report;    // of rank 0
};

std::string report_of(const leat::pipeline::Executor& executor) {
  const auto stats = executor.stats();
  std::string text = "capacity " + std::to_string(executor.capacity());
  for (const auto& rank : stats.ranks) {
    text += "\nrank " + std::to_string(rank.rank) + ": activations";
    for (const std::int64_t peak : rank.peak_activations) text += ' ' + std::to_string(peak);
    text += ", " + std::to_string(rank.device_bytes) + " bytes, and " +
            std::to_string(rank.pinned_bytes) + " pinned";
    if (rank.exchange) text += "; " + rank.exchange->report();
  }
  return text;
}

Outcome train(const Place& place, const Schedule& schedule, const Mnist& training,
              const Mnist& testing, const Options& options) {
  Trainer trainer(place, schedule, training, options);
  const std::uint64_t steps =
      options.steps > 0 ? options.steps : training.size() / options.batch_size;
  for (std::uint64_t step = 0; step < steps; ++step) {
    trainer.compute_gradient();
    trainer.update();
  }
  Outcome outcome{.digests = digests(trainer), .trained = trainer.take_metrics()};
  outcome.seconds = std::chrono::duration<double>(trainer.executor().stats().time).count();
  outcome.report = report_of(trainer.executor());
  if (place.replica == 0) trainer.evaluate(testing);
  outcome.tested = trainer.take_metrics();
  return outcome;
}

// Of the parts of a network that several have, and of replicas, which must have the same.
Outcome together(std::vector<Outcome> all) {
  Outcome sum = std::move(all.front());
  for (auto one = all.begin() + 1; one != all.end(); ++one) {
    for (std::size_t i = 0; i < sum.digests.size(); ++i) {
      if (sum.digests[i] == 0) sum.digests[i] = one->digests[i];
      if (one->digests[i] != 0 && one->digests[i] != sum.digests[i]) {
        throw std::runtime_error("replicas differ in layer " + std::to_string(i));
      }
    }
    for (auto [to, from] : {std::pair(&sum.trained, &one->trained), {&sum.tested, &one->tested}}) {
      to->loss += from->loss;
      to->correct += from->correct;
      to->samples += from->samples;
    }
  }
  return sum;
}

// The outcomes of all processes, on each of them.
std::vector<Outcome> gathered(const Communicator& world, const Outcome& mine) {
  std::vector<double> figures;  // whole numbers below 2^53
  for (const Metrics& one : {mine.trained, mine.tested}) {
    figures.insert(figures.end(), {one.loss, double(one.correct), double(one.samples)});
  }
  std::vector<std::int64_t> digests(mine.digests.begin(), mine.digests.end());
  const auto size = static_cast<std::size_t>(world.size());
  std::vector<double> all_figures(figures.size() * size);
  std::vector<std::int64_t> all_digests(digests.size() * size);
  world.all_gather(figures, all_figures).await();
  world.all_gather(digests, all_digests).await();
  std::vector<Outcome> all(size, mine);
  for (std::size_t i = 0; i < size; ++i) {
    all[i].digests.assign(all_digests.begin() + std::ptrdiff_t(i * digests.size()),
                          all_digests.begin() + std::ptrdiff_t((i + 1) * digests.size()));
    const double* const one = all_figures.data() + i * figures.size();
    all[i].trained = {one[0], std::uint64_t(one[1]), std::uint64_t(one[2])};
    all[i].tested = {one[3], std::uint64_t(one[4]), std::uint64_t(one[5])};
  }
  return all;
}

// All ranks of all replicas in this process, a fiber for each replica.
Outcome train_here(const Schedule& schedule, const Mnist& training, const Mnist& testing,
                   const Options& options) {
  const std::size_t ranks = schedule.rows.size();
  const std::size_t replicas = options.replicas;
  std::vector<std::vector<Communicator>> same;  // by rank, then by replica
  for (std::size_t r = 0; r < ranks && replicas > 1; ++r) {
    same.push_back(leat::comm::open("local:" + std::to_string(replicas)));
  }
  std::vector<Outcome> outcomes(replicas);
  leat::TaskGroup group;
  for (std::size_t p = 0; p < replicas; ++p) {
    const auto train_replica = [&, p] {
      Place place{.replica = p};
      for (std::size_t r = 0; r < ranks; ++r) {
        place.devices.push_back(
            data_parallel::open_device(options.device, int(p * ranks + r), int(replicas * ranks)));
        if (replicas > 1) place.replicas.push_back(&same[r][p]);
      }
      outcomes[p] = train(place, schedule, training, testing, options);
    };
    group.go(train_replica, {.stack_size = 1 << 20});  // it opens devices
  }
  group.wait();
  return together(std::move(outcomes));
}

// The rank that this process is.
Outcome train_mpi(const Communicator& world, const Schedule& schedule, const Mnist& training,
                  const Mnist& testing, const Options& options) {
  const auto ranks = static_cast<int>(schedule.rows.size());
  if (world.size() != ranks * int(options.replicas)) {
    throw std::invalid_argument(std::to_string(world.size()) + " processes, but " +
                                std::to_string(ranks) + " ranks of " +
                                std::to_string(options.replicas) + " pipelines");
  }
  // [places]
  const int replica = world.rank() / ranks;
  const auto pipeline = world.split(replica);
  const auto replicas = world.split(world.rank() % ranks);  // that have the same stages
  // [/places]
  const char* const local = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");  // on this machine
  const char* const locals = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  Place place{.devices = {data_parallel::open_device(options.device,
                                                     local != nullptr ? std::atoi(local) : 0,
                                                     locals != nullptr ? std::atoi(locals) : 1)},
              .pipeline = &*pipeline,
              .replica = static_cast<std::size_t>(replica)};
  if (options.replicas > 1) place.replicas = {&*replicas};
  return together(gathered(world, train(place, schedule, training, testing, options)));
}

int train(Options options) {
  const Mnist training(options.data, Mnist::kTrain);
  const Mnist testing(options.data, Mnist::kTest);
  std::vector<Communicator> world;
  if (options.mpi) {
    world = leat::comm::open("mpi");
    options.shape.ranks = std::max(1, world[0].size() / int(options.replicas));
  }
  const Schedule schedule = schedule_of(options);
  const Outcome outcome = options.mpi ? train_mpi(world[0], schedule, training, testing, options)
                                      : train_here(schedule, training, testing, options);
  if (options.mpi && world[0].rank() != 0) return 0;
  const auto loss =
      outcome.trained.loss / double(std::max<std::uint64_t>(outcome.trained.samples, 1));
  const auto accuracy = 100.0 * double(outcome.tested.correct) /
                        double(std::max<std::uint64_t>(outcome.tested.samples, 1));
  std::uint64_t digest = 0;
  for (const std::uint64_t one : outcome.digests) digest = (digest ^ one) * 0x100000001B3U;
  std::printf(
      "%zu pipelines of %zu ranks, %d stages, %d microbatches, %s\n"
      "%llu samples in %.3f s: loss %.4f, test accuracy %.2f %%\nweights %016llx\n",
      options.replicas, schedule.rows.size(), schedule.stages, schedule.microbatches,
      outcome.report.c_str(), static_cast<unsigned long long>(outcome.trained.samples),
      outcome.seconds, loss, accuracy, static_cast<unsigned long long>(digest));
  mnist::flush_output();
  if (accuracy >= double(options.min_accuracy)) return 0;
  std::fprintf(stderr, "pipeline: test accuracy is below %.2f %%\n", double(options.min_accuracy));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    mnist::require_output();
    const Options options = pipelined::parse(argc, argv);
    if (options.help) {
      std::fputs(pipelined::usage(), stdout);
      mnist::flush_output();
      return 0;
    }
    return leat::run([&] { return train(options); });
  } catch (const std::bad_alloc&) {
    std::fputs("pipeline: out of memory; free some, or raise the limit (ulimit -v)\n", stderr);
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pipeline: %s\n", e.what());
    return 1;
  }
}
