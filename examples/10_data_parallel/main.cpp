// Trains a perceptron on MNIST on several ranks: each has a device and a slice of each batch, and
// all have the same weights, which are those of one device with the whole batch (but for rounding).
//
//   data_parallel --ranks 4                          four fibers of this process
//   mpirun -np 4 data_parallel --transport mpi       four processes; the weights have the same bits
//   data_parallel --ranks 4 --servers 1              rank 3 holds the parameters for the others
//
// Only main() knows which of the two it is.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/03_mnist/output.h"
#include "examples/10_data_parallel/options.h"
#include "examples/10_data_parallel/train.h"
#include "leat/comm/communicator.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/gpu/device.h"

namespace {

using data_parallel::Options;
using data_parallel::Outcome;
using leat::comm::Communicator;
using leat::feeder::Mnist;

// Open MPI tells each process where it stands among those of its machine.
int number_in_environment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

bool of_mpirun(const Options& options) {
  return options.transport == "mpi" || options.transport == "nccl-mpi";
}

std::string name_of_ranks(const Options& options) {
  if (options.transport == "nccl-mpi") return "nccl";
  return of_mpirun(options) ? "mpi" : options.transport + ':' + std::to_string(options.ranks);
}

// Of the first `workers` ranks; the others have no weights.
void require_same_bits(const Communicator& ranks, std::size_t workers, std::uint64_t digest) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(ranks.size()));
  const std::vector<std::int64_t> mine = {static_cast<std::int64_t>(digest)};
  ranks.all_gather(mine, all).await();
  for (std::size_t rank = 0; rank < workers; ++rank) {
    if (all[rank] == all[0]) continue;
    throw std::runtime_error("the weights of rank " + std::to_string(rank) + " are not rank 0's");
  }
}

// What one rank does. Returns the exit status; rank 0 prints, and so do servers.
int train_rank(const Communicator& ranks, const Mnist& training, const Mnist& testing,
               const Options& options) {
  const bool is_alone = of_mpirun(options);  // in this process
  const int local =
      is_alone ? number_in_environment("OMPI_COMM_WORLD_LOCAL_RANK", 0) : ranks.rank();
  const int locals =
      is_alone ? number_in_environment("OMPI_COMM_WORLD_LOCAL_SIZE", 1) : ranks.size();
  const leat::gpu::Device device = ranks.device() != nullptr
                                       ? *ranks.device()
                                       : data_parallel::open_device(options.device, local, locals);
  const Outcome outcome = data_parallel::train(ranks, device, training, &testing, options);
  const std::uint64_t digest = data_parallel::digest(outcome.weights);
  require_same_bits(ranks, static_cast<std::size_t>(ranks.size() - options.servers), digest);
  if (ranks.rank() >= ranks.size() - options.servers) {
    std::printf("rank %d served: %s\n", ranks.rank(), outcome.exchange.c_str());
  }
  if (ranks.rank() != 0) return 0;
  std::printf(
      "%d ranks (%s), rank 0 on %s: %llu steps of %zu samples\n%s\n"
      "loss %.4f  test accuracy %.2f %%\nweights %016llx, on all %s\n",
      ranks.size(), options.transport.c_str(), device.name().c_str(),
      static_cast<unsigned long long>(outcome.steps), options.global_batch,
      outcome.exchange.c_str(), outcome.loss, outcome.accuracy,
      static_cast<unsigned long long>(digest), options.servers > 0 ? "workers" : "ranks");
  if (outcome.accuracy >= static_cast<double>(options.min_accuracy)) return 0;
  std::fprintf(stderr, "data_parallel: test accuracy is below %.2f %%\n",
               static_cast<double>(options.min_accuracy));
  return 1;
}

int train(const Options& options) {
  const Mnist training(options.data, Mnist::kTrain);
  const Mnist testing(options.data, Mnist::kTest);
  // [ranks]
  // "local:4", "mpi"; with a GPU for each rank "nccl:4", or "nccl" of mpirun
  const std::vector<Communicator> here = leat::comm::open(name_of_ranks(options), options.open);
  std::atomic<int> status = 0;
  leat::TaskGroup group;
  for (const Communicator& ranks : here) {  // four fibers, or one
    const auto run_rank = [&] {
      if (train_rank(ranks, training, testing, options) != 0) status = 1;
    };
    group.go(run_rank, {.stack_size = 1 << 20});  // CUDA may load kernels on it
  }
  group.wait();
  // [/ranks]
  mnist::flush_output();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    mnist::require_output();
    const Options options = data_parallel::parse(argc, argv);
    if (options.help) {
      std::fputs(data_parallel::usage(), stdout);
      mnist::flush_output();
      return 0;
    }
    return leat::run([&] { return train(options); });
  } catch (const std::bad_alloc&) {
    std::fputs("data_parallel: out of memory; free some, or raise the limit (ulimit -v)\n", stderr);
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "data_parallel: %s\n", e.what());
    return 1;
  }
}
