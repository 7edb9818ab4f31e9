// What a LoopMeter calls of CUDA, on the software stand-in, which counts.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <string>
#include <utility>

#include "leat/feeder/loop_meter.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"

namespace leat::feeder {
namespace loop_meter_on_cuda_test {

TEST(CudaLoopMeter, RecordsThreeEventsInASampledStepAndSynchronisesNever) {
  const gpu::Device device = gpu::open("cuda:0");
  const gpu::Stream stream(device);
  LoopMeter meter({.sample_every = 4});
  meter.asks(stream);
  meter.got();
  const stand_in::Calls before = stand_in::all_calls();
  for (int i = 0; i < 200; ++i) {
    meter.asks(stream);
    meter.got();
    // A device that is behind is sampled less often.
    std::promise<void> reached;
    const std::future<void> is_reached = reached.get_future();
    stream.launch_host([reached = std::move(reached)]() mutable { reached.set_value(); });
    is_reached.wait();
  }
  meter.ends();
  const stand_in::Calls after = stand_in::all_calls();
  const auto calls = [&](const std::string& function) {
    const auto in = [&](const stand_in::Calls& all) {
      const auto at = all.find(function);
      return at == all.end() ? 0 : at->second;
    };
    return in(after)-in(before);
  };
  EXPECT_EQ(calls("cudaStreamSynchronize"), 0U);
  EXPECT_EQ(calls("cudaEventSynchronize"), 0U);
  EXPECT_EQ(calls("cudaDeviceSynchronize"), 0U);
  EXPECT_EQ(calls("cudaStreamWaitEvent"), 0U);
  EXPECT_EQ(calls("cudaEventCreateWithFlags"), 0U) << "they were made at the start";
  const LoopFigures figures = meter.figures();
  EXPECT_GT(figures.sampled, 40U);
  EXPECT_LT(figures.sampled, 60U);
  EXPECT_EQ(calls("cudaEventRecord") / 3, figures.sampled) << "the rest is of what ends() drops";
  EXPECT_EQ(figures.device_error, "");
}

TEST(CudaLoopMeter, MeasuresALoopOnTheLegacyStream) {
  const gpu::Device device = gpu::open("cuda:0");
  const gpu::StreamRef stream = gpu::StreamRef::legacy(device);
  LoopMeter meter({.sample_every = 1});
  for (int i = 0; i < 10; ++i) {
    meter.asks(stream);
    meter.got();
    stream.sync();
  }
  EXPECT_EQ(meter.figures().sampled, 8U);
  EXPECT_EQ(meter.figures().device_error, "");
}

TEST(CudaLoopMeter, DoesNotSampleAStepThatIsBeingCaptured) {
  const gpu::Device device = gpu::open("cuda:0");
  cudaStream_t mine = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking), cudaSuccess);
  {
    const gpu::StreamRef stream = gpu::StreamRef::from_native(device, mine);
    LoopMeter meter({.sample_every = 1});
    for (int i = 0; i < 10; ++i) {
      const bool is_captured = i == 5;
      meter.asks(stream);
      meter.got();
      if (is_captured) {
        ASSERT_EQ(cudaStreamBeginCapture(mine, cudaStreamCaptureModeGlobal), cudaSuccess);
        meter.asks(stream);
        meter.got();
        static_cast<void>(meter.figures());
        cudaGraph_t graph = nullptr;
        ASSERT_EQ(cudaStreamEndCapture(mine, &graph), cudaSuccess) << "the capture was disturbed";
        ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
      }
    }
    meter.ends();
    ASSERT_EQ(cudaStreamSynchronize(mine), cudaSuccess);
    const LoopFigures figures = meter.figures();
    EXPECT_EQ(figures.steps, 9U);
    EXPECT_EQ(figures.sampled, 7U) << "all but that which became captured, and the captured one";
    EXPECT_EQ(figures.device_error, "");
  }
  ASSERT_EQ(cudaStreamDestroy(mine), cudaSuccess);
}

}  // namespace loop_meter_on_cuda_test
}  // namespace leat::feeder
