// What Leat may do while the user captures a CUDA graph. Written against CUDA's interface and
// Leat's alone.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"
#include "tests/gpu/cuda_rules.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"

namespace leat::gpu {
namespace cuda_rules_capture_test {

using namespace cuda_rules;  // NOLINT(google-build-using-namespace): fixtures of this test
using namespace support;     // NOLINT(google-build-using-namespace): fixtures of this test

/// What Leat may do during a capture: none of it is on the stream that is captured.
void use_leat(const Device& device) {
  const Stream stream(device);
  const PinnedBuffer pinned = pinned_filled(device, kBytes, kPoison);
  const DeviceBuffer there(device, kBytes);
  const Event event(device);
  event.record(stream);
  copy_async(stream, there.span(), pinned.span());
  {
    PinnedArena arena(device, 2 * kBytes);
    const DeviceBuffer in_order(stream, 2 * kBytes);
    const std::array<CopyToDevice, 2> batch{
        {{in_order.subspan(0, kBytes), arena.take(kBytes, 1)},
         {in_order.subspan(kBytes, kBytes), arena.take(kBytes, 1)}}};
    copy_async(stream, batch);
    event.record(stream);
    select(on_done(event));
  }
  static_cast<void>(stream.is_done());
  static_cast<void>(event.is_done());
  event.sync();
  event.record(stream);
  event.await();
  stream.sync();
  fails<OutOfMemory>([&] { DeviceBuffer(device, std::size_t{1} << 60); });
  expect_works(device);
}

// The gate opens when the capture has begun: the poller asks meanwhile, on its thread.
TEST_F(CudaRules, AUsersCaptureSurvivesWhateverLeatDoesMeanwhile) {
  const Device device = open("cuda:0");
  const DeviceBuffer users(device, kBytes);
  const auto capture = [&](unsigned flags) {
    must(cudaSetDevice(0));
    const UserStream stream(flags);
    const Stream leats(device);
    const Event event(device);
    const Gate gate(leats);
    event.record(leats);
    TaskGroup group;
    group.go([&] { event.await(); });
    yield();
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    must(cudaMemsetAsync(users.data(), 1, kBytes, stream));
    gate.open();
    group.wait();
    use_leat(device);
    std::thread([&] { use_leat(device); }).join();
    must(cudaMemsetAsync(users.data(), 2, kBytes, stream));
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    must(cudaStreamIsCapturing(stream, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    cudaGraph_t graph = nullptr;
    must(cudaStreamEndCapture(stream, &graph));
    ASSERT_NE(graph, nullptr);
    std::size_t nodes = 0;
    must(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 2U);  // what Leat did is not in it
    must(cudaGraphDestroy(graph));
  };
  // On one worker, because the thread that began a capture has to end it.
  for (const unsigned flags : kStreamFlags) {
    run([&] { capture(flags); }, {.workers = 1});
  }
}

TEST_F(CudaRules, AStreamThatIsBeingCapturedIsRefused) {
  const Device device = open("cuda:0");
  must(cudaSetDevice(0));
  const UserStream stream(cudaStreamNonBlocking);
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  fails([&] { static_cast<void>(StreamRef::from_native(device, stream)); });
  cudaGraph_t graph = nullptr;
  must(cudaStreamEndCapture(stream, &graph));
  must(cudaGraphDestroy(graph));
  const StreamRef users = StreamRef::from_native(device, stream);
  EXPECT_FALSE(users.is_capturing());
}

}  // namespace cuda_rules_capture_test
}  // namespace leat::gpu
