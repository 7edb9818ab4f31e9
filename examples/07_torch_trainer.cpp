// A trainer with LibTorch: a small network on a part of MNIST, on the CPU. The batches are Leat's
// memory, seen as torch::Tensor; Torch copies nothing.
//
//   example_07_torch_trainer [folder of the data]     examples/data/mnist where it is not said
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include "examples/written.h"
#include "leat/feeder/interop/torch.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/gpu/device.h"

namespace {

using leat::feeder::Lease;
using leat::feeder::Mnist;
using leat::feeder::Prefetcher;
using leat::feeder::TorchBatch;

constexpr int kSteps = 300;

torch::Tensor forward(torch::nn::Sequential& network, const TorchBatch& batch) {
  return network->forward(batch["image"].to(torch::kFloat32).div_(255).flatten(1));
}

// [torch_trainer]
void train(torch::nn::Sequential& network, Prefetcher& feed) {
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < kSteps; ++step) {
    std::optional<Lease> lease = feed.next();
    if (!lease.has_value()) continue;  // the next epoch begins
    const TorchBatch batch(*std::move(lease));
    optimizer.zero_grad();
    const torch::Tensor loss =
        torch::cross_entropy_loss(forward(network, batch), batch["label"].to(torch::kInt64));
    loss.backward();
    optimizer.step();
  }  // the batch goes back with the last tensor that sees it
}
// [/torch_trainer]

double accuracy(torch::nn::Sequential& network, Prefetcher& feed) {
  const torch::NoGradGuard no_grad;
  std::int64_t right = 0;
  std::int64_t all = 0;
  for (Lease& lease : feed.epoch(0)) {
    const TorchBatch batch(std::move(lease));
    const torch::Tensor found = forward(network, batch).argmax(1);
    right += found.eq(batch["label"]).sum().item<std::int64_t>();
    all += found.size(0);
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

bool run(const char* folder) {
  torch::manual_seed(1);
  torch::set_num_threads(1);  // the same sums on every machine
  const Mnist training(folder, Mnist::kTrain);
  const Mnist test(folder, Mnist::kTest);
  const leat::gpu::Device device = leat::gpu::open("host");
  Prefetcher feed(training, device, {.batch_size = 64, .seed = 1});
  Prefetcher test_feed(test, device, {.batch_size = 500});

  torch::nn::Sequential network(torch::nn::Linear(28 * 28, 64), torch::nn::ReLU(),
                                torch::nn::Linear(64, Mnist::kClasses));
  train(network, feed);
  const double part = accuracy(network, test_feed);
  std::printf("%d steps of 64, test accuracy %s 90 %%\n", kSteps, part > 0.9 ? "above" : "below");
  return part > 0.9;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return if_written(run(argc > 1 ? argv[1] : "examples/data/mnist") ? 0 : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
