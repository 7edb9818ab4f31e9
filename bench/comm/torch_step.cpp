// A training step with LibTorch on ranks of mpirun, without and with the exchange of its gradients:
// Leat's side of bench/peers/comm/ddp/step.py, which has the same network, batch and order of work.
//
//   mpirun -np 2 bench_comm_torch <steps of a block> <blocks>
//
// Rank 0 prints the median nanoseconds of a step without and with the exchange, and the bytes by
// which the exchange has made its process larger.
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <utility>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/interop/torch.h"

namespace {

using leat::comm::Communicator;
using leat::comm::TorchExchange;

long long resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  long long all = 0;
  long long resident = 0;
  statm >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(int steps, int blocks) {
  const Communicator ranks = std::move(leat::comm::open("mpi").front());
  torch::set_num_threads(1);
  torch::manual_seed(1);
  torch::nn::Sequential network(torch::nn::Linear(784, 1024), torch::nn::ReLU(),
                                torch::nn::Linear(1024, 1024), torch::nn::ReLU(),
                                torch::nn::Linear(1024, 10));
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));
  const torch::Tensor images = torch::rand({64, 784});
  const torch::Tensor labels = torch::randint(10, {64});
  const auto step = [&](TorchExchange* exchange) {
    optimizer.zero_grad();
    const torch::Tensor loss = torch::cross_entropy_loss(network->forward(images), labels);
    if (exchange != nullptr) exchange->begin_step(64);
    loss.backward();
    if (exchange != nullptr) exchange->await_all();
    optimizer.step();
  };
  for (int i = 0; i < steps; ++i) step(nullptr);

  const long long before = resident_bytes();
  TorchExchange exchange(ranks, *network);
  for (int i = 0; i < steps; ++i) step(&exchange);
  const long long more = resident_bytes() - before;

  std::vector<double> plain;
  std::vector<double> exchanged;
  const auto block = [&](std::vector<double>& times, TorchExchange* with) {
    ranks.barrier().await();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step(with);
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    times.push_back(time.count() / steps);
  };
  for (int i = 0; i < blocks; ++i) {
    {
      const TorchExchange::Pause pause = exchange.pause();
      block(plain, nullptr);
    }
    block(exchanged, &exchange);
  }
  ranks.barrier().await();
  if (ranks.rank() == 0) {
    std::printf("%.0f %.0f %lld\n", median_of(plain), median_of(exchanged), more);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? std::atoi(argv[1]) : 50, argc > 2 ? std::atoi(argv[2]) : 9);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
