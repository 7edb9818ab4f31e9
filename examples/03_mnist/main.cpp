// Trains a perceptron on MNIST: real data from disk, through pinned slots and a side stream, to a
// model that learns, on the first CUDA device or on the host.
//
// The loop enqueues work and never waits for the device: while a batch is trained on, the next one
// is read and copied. The table at the end tells how well that worked and what limits the loop.
// Then the loop shows what overlap is (show_overlap.h).

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "examples/03_mnist/kernels.h"
#include "examples/03_mnist/network.h"
#include "examples/03_mnist/options.h"
#include "examples/03_mnist/output.h"
#include "examples/03_mnist/progress.h"
#include "examples/03_mnist/show_overlap.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace {

using leat::feeder::Lease;

// Each epoch's learning rate is this much of the one before.
constexpr float kRateDecay = 0.3F;

// The kernels are told where the images start and how many there are, never how large they are: one
// of another size would be read past its end, or in pieces.
void require_image_size(const leat::feeder::Mnist& data, const std::string& directory) {
  if (data.rows() == mnist::kSide && data.columns() == mnist::kSide) return;
  const auto size = [](std::size_t rows, std::size_t columns) {
    return std::to_string(rows) + " x " + std::to_string(columns);
  };
  throw std::runtime_error(
      "the images of " + std::string(data.name()) + " in " + directory + " are " +
      size(data.rows(), data.columns()) + " pixels, but the network is made for " +
      size(mnist::kSide, mnist::kSide) + "; give a --data directory with such images");
}

mnist::Metrics test(mnist::Network& network, const leat::feeder::Dataset& data,
                    const leat::gpu::Stream& stream, std::size_t batch_size) {
  leat::feeder::Prefetcher feed(
      data, stream.device(), {.batch_size = batch_size, .order = leat::feeder::Order::kSequential});
  for (Lease& batch : feed.epoch(0, stream)) {
    network.evaluate(batch["image"].data<std::uint8_t>(), batch["label"].data<std::uint8_t>(),
                     batch.size());
  }
  return network.metrics();
}

int train(const mnist::Options& options) {
  const leat::feeder::Mnist training(options.data, leat::feeder::Mnist::kTrain);
  require_image_size(training, options.data);
  const leat::feeder::Mnist testing(options.data, leat::feeder::Mnist::kTest);
  require_image_size(testing, options.data);
  if (options.batch_size > training.size()) {  // room for what never comes
    const std::string most = std::to_string(training.size());
    throw std::runtime_error("--batch-size " + std::to_string(options.batch_size) +
                             " is more than the " + most + " training images in " + options.data +
                             "; give at most " + most);
  }
  const leat::gpu::Device device = leat::gpu::open(options.device);
  std::printf("training on %s (%s), %llu images\n", device.name().c_str(),
              device.info().description.c_str(), static_cast<unsigned long long>(training.size()));
  mnist::flush_output();  // a full disk is told now, not after the training

  // [trainer]
  const leat::gpu::Stream stream(device);
  mnist::Network network(stream, options.batch_size, options.seed);
  leat::feeder::Prefetcher feed(training, device,
                                {.batch_size = options.batch_size,
                                 .prefetch_depth = options.prefetch_depth,
                                 .workers = options.workers,
                                 .seed = options.seed});
  mnist::Progress progress(options.epochs, feed.batches_per_epoch());
  for (std::uint64_t epoch = 0; epoch < options.epochs; ++epoch) {
    const mnist::StepOptions step{.learning_rate = options.learning_rate *
                                                   std::pow(kRateDecay, static_cast<float>(epoch))};
    progress.start_epoch(epoch);
    for (Lease& batch : feed.epoch(epoch, stream)) {  // stream waits for the copy; we do not
      network.train_step(batch["image"].data<std::uint8_t>(), batch["label"].data<std::uint8_t>(),
                         batch.size(), step);
      progress.step(batch.size());
    }  // the slot goes back, once the kernels above are done with it
    progress.finish_epoch(network.metrics());
  }
  // [/trainer]

  const mnist::Metrics result = test(network, testing, stream, options.batch_size);
  const double accuracy =
      100.0 * static_cast<double>(result.correct) / static_cast<double>(result.samples);
  std::printf("test accuracy %.2f %%\n\n%s\n", accuracy, feed.stats().table().c_str());
  mnist::flush_output();
  std::fputs(mnist::show_overlap(options, device, training).c_str(), stdout);
  mnist::flush_output();
  if (accuracy >= static_cast<double>(options.min_accuracy)) return 0;
  std::fprintf(stderr, "mnist: test accuracy is below %.2f %%\n",
               static_cast<double>(options.min_accuracy));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    mnist::require_output();
    const mnist::Options options = mnist::parse(argc, argv);
    if (options.help) {
      std::fputs(mnist::usage(), stdout);
      mnist::flush_output();
      return 0;
    }
    return leat::run([&] { return train(options); });
  } catch (const std::bad_alloc&) {
    std::fputs("mnist: out of memory; free some, or raise the limit (ulimit -v)\n", stderr);
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "mnist: %s\n", e.what());
    return 1;
  }
}
