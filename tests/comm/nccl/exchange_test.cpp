// Exchanges over NCCL: gradients are summed in the device's memory, without slots in the host's.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/gpu/buffer.h"
#include "tests/comm/nccl/stand_in/stand_in.h"
#include "tests/comm/support/far_memory.h"
#include "tests/comm/support/far_training.h"
#include "tests/comm/support/ranks.h"
#include "tests/comm/support/training.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"
#include "tests/support/run.h"
#include "tests/support/texts.h"

namespace leat::comm {
namespace nccl_exchange_test {

using support::FarMemory;
using support::Plan;

/// Calls body on each rank of a new "nccl:ranks", a thread each.
void on_gpus(int ranks, const support::RankBody& body, const OpenOptions& options = {}) {
  std::vector<std::jthread> threads;
  for (Communicator& one : open("nccl:" + std::to_string(ranks), options)) {
    threads.emplace_back(
        [&body, me = std::move(one)]() mutable { support::call_and_check(body, me); });
  }
}

void train(Communicator& me, const Plan& plan) {
  support::train_far(me, plan, *me.device(), /*syncs=*/true);
}

// Weights of 16-bit types are rounded to these: the plain loop's are not. So those are summed.
TEST(NcclExchange, ResultsAreThoseOfAPlainLoop) {
  for (std::uint32_t seed = 0; seed < leat::support::rounds(24); ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "seed " << seed);
    const int ranks = 1 + static_cast<int>(seed % 4);
    Plan plan = support::random_plan(seed, ranks);
    for (support::Tensor& one : plan.tensors) {
      const bool is_small = one.dtype == DType::kFloat16 || one.dtype == DType::kBFloat16;
      if (is_small && plan.options.weights == Weights::kSamples) one.dtype = DType::kFloat32;
    }
    on_gpus(ranks, [&](Communicator& me) { train(me, plan); });
    if (HasFailure()) return;
  }
}

TEST(NcclExchange, AWeightOfASmallTypeIsRoundedToIt) {
  on_gpus(2, [&](Communicator& me) {
    const gpu::Device device = *me.device();
    const Plan plan{.options = {.device = device},
                    .tensors = {{DType::kBFloat16, 1}},
                    .steps = {{.samples = {1, 2}, .is_given = {{true}, {false}}}}};
    FarMemory memory(device, plan);
    const gpu::BFloat16 one = support::narrow<gpu::BFloat16>(1.0F);
    memory.write(0, support::to_bytes(std::vector<gpu::BFloat16>{one}));
    memory.stream.sync();
    GradientExchange exchange(me, memory.gradients, {.device = device});
    exchange.begin_step(me.rank() == 0 ? 1 : 2);
    if (me.rank() == 0) exchange.ready(0, memory.stream);
    exchange.end_backward();
    EXPECT_TRUE(exchange.await(0, memory.stream));
    const auto third = support::narrow<gpu::BFloat16>(1.0F / 3);
    EXPECT_EQ(memory.read(0), support::to_bytes(std::vector<gpu::BFloat16>{third}));
  });
}

TEST(NcclExchange, GradientsAreNotCopiedToTheHost) {
  for (const Policy policy : {Policy::kPriority, Policy::kBucketed}) {
    on_gpus(2, [&](Communicator& me) {
      const gpu::Device device = *me.device();
      gpu::DeviceBuffer memory(device, 4 << 10);
      const gpu::Stream stream(device);
      GradientExchange exchange(me, {{"w", memory.span()}}, {.device = device, .policy = policy});
      me.barrier().await();
      const std::uint64_t before = leat::stand_in::copied().bytes;
      exchange.begin_step(1);
      exchange.ready(0, stream);
      exchange.end_backward();
      EXPECT_TRUE(exchange.await(0, stream));
      stream.sync();
      me.barrier().await();
      // A bucket is put together, and taken apart, on the device.
      const std::uint64_t copied = leat::stand_in::copied().bytes - before;
      EXPECT_EQ(copied, policy == Policy::kBucketed ? 4U * (4 << 10) : 0U);
    });
  }
}

TEST(NcclExchange, ABroadcastMakesAllRanksStartAlike) {
  on_gpus(3, [](Communicator& me) {
    const gpu::Device device = *me.device();
    const Plan plan{.options = {},
                    .tensors = {{DType::kFloat32, 5}, {DType::kInt64, 0}, {DType::kFloat16, 9}}};
    FarMemory memory(device, plan);
    for (std::size_t i = 0; i < 3; ++i) {
      memory.write(i, support::gradient_of(plan, me.rank(), 0, i));
    }
    memory.stream.sync();
    GradientExchange exchange(me, {}, {.device = device});
    exchange.broadcast(memory.gradients, 1);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(memory.read(i), support::gradient_of(plan, 1, 0, i));
    }
  });
}

TEST(NcclExchange, AStreamThatIsCapturedIsRefused) {
  on_gpus(1, [](Communicator& me) {
    const gpu::Device device = *me.device();
    gpu::DeviceBuffer memory(device, 64);
    const gpu::Stream stream(device);
    GradientExchange exchange(me, {{"w", memory.span()}}, {.device = device});
    exchange.begin_step(1);
    auto* const native = static_cast<cudaStream_t>(stream.native_handle());
    ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeRelaxed), cudaSuccess);
    leat::support::expect_throws<std::logic_error>([&] { exchange.ready(0, stream); },
                                                   {"ready", "captured into a CUDA graph"});
    leat::support::expect_throws<std::logic_error>([&] { exchange.await(0, stream); },
                                                   {"await", "captured into a CUDA graph"});
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(native, &graph), cudaSuccess);
    cudaGraphDestroy(graph);
    exchange.ready(0, stream);
    exchange.end_backward();
    EXPECT_TRUE(exchange.await(0, stream));
  });
}

TEST(NcclExchange, AUsersCaptureOnAnotherStreamSurvives) {
  on_gpus(1, [](Communicator& me) {
    const gpu::Device device = *me.device();
    gpu::DeviceBuffer memory(device, 64);
    const gpu::Stream stream(device);
    const gpu::Stream captured(device);
    auto* const native = static_cast<cudaStream_t>(captured.native_handle());
    ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal), cudaSuccess);
    me.all_reduce(Elements(memory.span(), DType::kFloat32)).await();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(native, &graph), cudaSuccess);
    cudaGraphDestroy(graph);
  });
}

TEST(NcclExchange, OperationsInHostAndInDeviceMemoryAreOneOrder) {
  on_gpus(3, [](Communicator& me) {
    const gpu::Device device = *me.device();
    gpu::DeviceBuffer memory(device, 64);
    gpu::PinnedBuffer pinned(device, 64);
    const gpu::Stream stream(device);
    std::memset(pinned.data(), 0, 64);
    copy_async(stream, memory.span(), pinned.span());
    stream.sync();
    std::vector<int> host = {1};
    std::vector<Completion> all;
    for (int i = 0; i < 20; ++i) {
      all.push_back(me.all_reduce(Elements(memory.span(), DType::kFloat32)));
      if (i % 3 == 0) all.push_back(me.barrier());
      if (i % 4 == 0) all.push_back(me.all_reduce(host));
    }
    for (Completion& one : all) one.await();
    EXPECT_EQ(host[0], 243);  // 3^5
    EXPECT_EQ(nccl_stand_in::operations() % 3, 0U);
  });
}

TEST(NcclExchange, MemoryOfTheHostOnOneRankIsAMismatch) {
  on_gpus(2, [](Communicator& me) {
    gpu::DeviceBuffer memory(*me.device(), 8);
    std::vector<float> host(2);
    leat::support::expect_throws<CommMismatch>(
        [&] {
          (me.rank() == 0 ? me.all_reduce(host)
                          : me.all_reduce(Elements(memory.span(), DType::kFloat32)))
              .await();
        },
        {"rank 0: all_reduce of 2 float32 (number 0);",
         "rank 1: all_reduce of 2 float32 (number 0) in device memory"});
  });
}

TEST(NcclExchange, DeviceMemoryIsRefusedWhereThereIsNoDevice) {
  Communicator me = std::move(open("local:1").front());
  EXPECT_EQ(me.device(), nullptr);
  float x = 1;
  const gpu::DeviceSpan span(&x, sizeof x);
  leat::support::expect_throws<std::invalid_argument>(
      [&] { me.all_reduce(Elements(span, DType::kFloat32)).await(); }, {"device memory", "nccl"});
}

}  // namespace nccl_exchange_test
}  // namespace leat::comm
