// Trains the network of pytorch/examples' cpp/mnist on several ranks with LibTorch, without its
// dropout, whose random numbers would be other ones on each rank. The loss after each 100 steps is
// that of one process with the same global batch. With float32, rounding makes it differ by some
// 1e-4 in 300 steps, as it does whenever sums change their order; with float64 by less than 1e-9.
//
//   example_11_torch_data_parallel local:1 [steps] [float64]           one process, whole batches
//   mpirun -np 2 example_11_torch_data_parallel mpi [steps] [float64]  two, half of each batch
//
// On several ranks of "local", each is a thread.
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "examples/written.h"
#include "leat/comm/communicator.h"
#include "leat/comm/interop/torch.h"
#include "leat/feeder/interop/torch.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/gpu/device.h"

namespace {

using leat::comm::Communicator;
using leat::comm::TorchExchange;
using leat::feeder::Lease;
using leat::feeder::Mnist;
using leat::feeder::Prefetcher;
using leat::feeder::TorchBatch;

constexpr std::size_t kGlobalBatch = 64;
constexpr int kTold = 100;  // steps

struct Net : torch::nn::Module {
  Net() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1->forward(x), 2));
    x = torch::relu(torch::max_pool2d(conv2->forward(x), 2)).view({-1, 320});
    return torch::log_softmax(fc2->forward(torch::relu(fc1->forward(x))), 1);
  }
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 10, 5)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(10, 20, 5)};
  torch::nn::Linear fc1{320, 50};
  torch::nn::Linear fc2{50, 10};
};

// The loss of the ranks' samples together.
double mean_of(const Communicator& ranks, const torch::Tensor& loss, std::size_t samples) {
  const auto count = static_cast<double>(samples);
  std::vector<double> sums = {samples > 0 ? loss.item<double>() * count : 0, count};
  ranks.all_reduce(sums).await();
  return sums[0] / sums[1];
}

// [torch_data_parallel]
void train(const Communicator& ranks, Net& network, Prefetcher& feed, int steps,
           torch::ScalarType type) {
  TorchExchange exchange(ranks, network);  // all begin as rank 0
  torch::optim::SGD optimizer(network.parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));
  int step = 0;
  for (std::uint64_t epoch = 0; step < steps; ++epoch) {
    for (Lease& lease : feed.epoch(epoch)) {
      const std::size_t samples = lease.size();  // of this rank's slice, perhaps none
      const TorchBatch batch(std::move(lease));
      optimizer.zero_grad();
      exchange.begin_step(samples);
      torch::Tensor loss;
      if (samples > 0) {
        const torch::Tensor image = batch["image"].to(type).div_(255).unsqueeze(1);
        loss = torch::nll_loss(network.forward(image), batch["label"].to(torch::kInt64));
        loss.backward();  // gradients leave as they come
      }
      exchange.await_all();  // the mean of all ranks
      optimizer.step();
      if (++step % kTold == 0) {
        const double mean = mean_of(ranks, loss, samples);
        if (ranks.rank() == 0) std::printf("step %d  loss %.9f\n", step, mean);
      }
      if (step == steps) break;
    }
  }
}
// [/torch_data_parallel]

void train_rank(const Communicator& ranks, Net& network, const Mnist& data, int steps,
                torch::ScalarType type) {
  torch::set_num_threads(1);  // the same sums on every machine
  Prefetcher feed(data, leat::gpu::open("host"),
                  {.batch_size = kGlobalBatch,
                   .seed = 1,
                   .rank = static_cast<std::size_t>(ranks.rank()),
                   .world_size = static_cast<std::size_t>(ranks.size())});
  train(ranks, network, feed, steps, type);
}

void run(const std::string& transport, int steps, torch::ScalarType type) {
  const Mnist data("examples/data/mnist", Mnist::kTrain);
  const std::vector<Communicator> here = leat::comm::open(transport);
  std::vector<std::shared_ptr<Net>> networks;
  for (const Communicator& ranks : here) {
    torch::manual_seed(1U + static_cast<unsigned>(ranks.rank()));  // until rank 0's are copied
    networks.push_back(std::make_shared<Net>());
    networks.back()->to(type);
  }
  std::vector<std::exception_ptr> errors(here.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < here.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          train_rank(here[i], *networks[i], data, steps, type);
        } catch (...) {
          errors[i] = std::current_exception();
          here[i].abort("its trainer has thrown");
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool is_double = argc > 3 && std::string(argv[3]) == "float64";
    run(argc > 1 ? argv[1] : "local:2", argc > 2 ? std::atoi(argv[2]) : 300,
        is_double ? torch::kFloat64 : torch::kFloat32);
    return if_written(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
