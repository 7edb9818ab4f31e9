// Data-parallel training with real gradients: ranks together learn what one device learns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "examples/03_mnist/kernels.h"
#include "examples/03_mnist/network.h"
#include "examples/10_data_parallel/options.h"
#include "examples/10_data_parallel/train.h"
#include "leat/comm/communicator.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "tests/examples/first_images.h"

namespace data_parallel {
namespace data_parallel_test {

using leat::feeder::FirstImages;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSteps = 10;
#else
constexpr std::uint64_t kSteps = 100;
#endif

Options options_of(std::size_t global_batch) {
  Options options;
  options.global_batch = global_batch;
  // In proportion to the batch. With a rate that is too high for it, training is chaotic, and
  // amplifies the rounding in which one device and several differ.
  options.learning_rate = 0.04F * static_cast<float>(global_batch) / 64;
  options.steps = kSteps;
  options.epochs = kSteps;
  return options;
}

// One host device, the whole batch, and no communication.
std::vector<float> weights_of_one_device(const FirstImages& data, const Options& options) {
  std::vector<float> weights(mnist::kParameters);
  leat::run([&] {
    const leat::gpu::Device device = leat::gpu::open("host");
    const leat::gpu::Stream stream(device);
    mnist::Network network(stream, options.global_batch, options.seed);
    leat::feeder::Prefetcher feed(data, device,
                                  {.batch_size = options.global_batch, .seed = options.seed});
    std::uint64_t steps = 0;
    for (std::uint64_t epoch = 0; steps < options.steps; ++epoch) {
      for (leat::feeder::Lease& batch : feed.epoch(epoch, stream)) {
        network.train_step(batch["image"].data<std::uint8_t>(), batch["label"].data<std::uint8_t>(),
                           batch.size(), {.learning_rate = options.learning_rate});
        if (++steps == options.steps) break;
      }
    }
    const leat::gpu::PinnedBuffer host(device, network.parameters().size());
    copy_async(stream, host.span(), network.parameters());
    stream.sync();
    std::memcpy(weights.data(), host.data(), host.size());
  });
  return weights;
}

// By rank; of those that train.
std::vector<std::vector<float>> weights_of_ranks(int size, const FirstImages& data,
                                                 const Options& options) {
  std::vector<std::vector<float>> weights(static_cast<std::size_t>(size));
  leat::run([&] {
    leat::TaskGroup group;
    const std::vector<leat::comm::Communicator> all =
        leat::comm::open("local:" + std::to_string(size));
    for (const leat::comm::Communicator& ranks : all) {
      group.go([&] {
        const leat::gpu::Device device = open_device("host", ranks.rank(), ranks.size());
        const Outcome outcome = train(ranks, device, data, nullptr, options);
        const bool serves = ranks.rank() >= size - options.servers;
        EXPECT_EQ(outcome.steps, serves ? 0 : options.steps);
        weights[static_cast<std::size_t>(ranks.rank())] = outcome.weights;
      });
    }
    group.wait();
  });
  weights.resize(static_cast<std::size_t>(size - options.servers));
  return weights;
}

void expect_same_bits(const std::vector<std::vector<float>>& ranks) {
  for (const std::vector<float>& weights : ranks) {
    EXPECT_EQ(std::memcmp(weights.data(), ranks.front().data(), weights.size() * sizeof(float)), 0);
  }
}

struct Case {
  const char* name;
  int ranks;
  std::size_t global_batch;
  std::uint64_t images;
  int servers = 0;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }  // NOLINT: GoogleTest's name

class DataParallel : public testing::TestWithParam<Case> {};

TEST_P(DataParallel, RanksHaveTheSameBitsAndTheWeightsOfOneDevice) {
  const auto [name, ranks, global_batch, images, servers] = GetParam();
  const FirstImages data(images);
  Options options = options_of(global_batch);
  options.servers = servers;
  const std::vector<float> one = weights_of_one_device(data, options);
  const auto all = weights_of_ranks(ranks, data, options);
  expect_same_bits(all);
  float largest = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    largest = std::max(largest, std::abs(one[i] - all.front()[i]));
  }
  RecordProperty("largest_difference", std::to_string(largest));
  EXPECT_LE(largest, 1e-5F);
}

INSTANTIATE_TEST_SUITE_P(Batches, DataParallel,
                         testing::Values(Case{"four_ranks", 4, 64, 1000},
                                         Case{"a_remainder_and_a_short_last_batch", 4, 62, 1000},
                                         Case{"fewer_samples_than_ranks", 4, 3, 1000},
                                         Case{"three_ranks", 3, 64, 1000},
                                         Case{"three_workers_and_a_server", 4, 64, 1000, 1},
                                         Case{"a_remainder_and_two_servers", 6, 62, 1000, 2},
                                         Case{"fewer_samples_than_workers", 5, 3, 1000, 1}),
                         [](const auto& one) { return std::string(one.param.name); });

// Servers add by rank, and update alike.
TEST(DataParallelBits, DoNotDependOnPolicyPartitionCreditAndServers) {
  const FirstImages data(1000);
  Options options = options_of(62);
  options.steps = 10;
  const std::vector<float> first = weights_of_ranks(3, data, options).front();
  options.exchange.partition_bytes = 10'001;
  options.exchange.credit_bytes = 30'000;
  options.exchange.bucket_bytes = {1000, 100'000};
  using leat::comm::Policy;
  for (const Policy policy : {Policy::kFifo, Policy::kPriority, Policy::kBucketed}) {
    for (const int servers : {0, 2}) {
      if (servers > 0 && policy == Policy::kBucketed) continue;
      options.exchange.policy = policy;
      options.exchange.synchronous = servers == 0 && policy == Policy::kFifo;
      options.servers = servers;
      auto all = weights_of_ranks(3 + servers, data, options);
      all.push_back(first);
      expect_same_bits(all);
    }
  }
}

}  // namespace data_parallel_test
}  // namespace data_parallel
