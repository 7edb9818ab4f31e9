// That the stand-in is as strict as CUDA: what it refuses, and with which error. Where it refuses
// nothing, a test on it shows nothing.
#include "tests/gpu/cuda/stand_in/stand_in.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace leat::stand_in {
namespace stand_in_test {

void must(cudaError_t code) { ASSERT_EQ(code, cudaSuccess) << cudaGetErrorName(code); }

/// A host function that ends when it is opened.
class Hold {
 public:
  explicit Hold(cudaStream_t stream) { must(cudaLaunchHostFunc(stream, &Hold::wait, this)); }
  ~Hold() { open(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  void open() {
    if (open_.exchange(true)) return;
    open_.notify_all();
    ended_.wait(false);
  }

 private:
  static void CUDART_CB wait(void* self) {
    auto& hold = *static_cast<Hold*>(self);
    hold.open_.wait(false);
    hold.ended_ = true;
    hold.ended_.notify_all();
  }
  std::atomic<bool> open_{false};
  std::atomic<bool> ended_{false};
};

class StandIn : public testing::Test {
 protected:
  StandIn() {
    must(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    must(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    must(cudaMalloc(&memory, kBytes));
    must(cudaHostAlloc(&pinned, kBytes, cudaHostAllocPortable | cudaHostAllocWriteCombined));
  }
  ~StandIn() override { reset(); }

  static constexpr std::size_t kBytes = 4096;
  cudaStream_t a = nullptr;
  cudaStream_t b = nullptr;
  cudaEvent_t event = nullptr;
  void* memory = nullptr;
  void* pinned = nullptr;
};

TEST_F(StandIn, AWaitKeepsTheRecordThatItSaw) {
  must(cudaEventRecord(event, a));
  must(cudaStreamWaitEvent(b, event, 0));
  Hold hold(a);
  must(cudaEventRecord(event, a));
  must(cudaStreamSynchronize(b));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  must(cudaStreamWaitEvent(b, event, 0));
  EXPECT_EQ(cudaStreamQuery(b), cudaErrorNotReady);
  must(cudaEventDestroy(event));
  EXPECT_EQ(cudaStreamQuery(b), cudaErrorNotReady);
  hold.open();
  must(cudaStreamSynchronize(b));
}

TEST_F(StandIn, StreamsAndTheirWaitsAreKnown) {
  EXPECT_EQ(streams(), (std::vector{a, b}));
  must(cudaEventRecord(event, a));
  must(cudaStreamWaitEvent(b, event, 0));
  EXPECT_TRUE(waits().empty()) << "was not asked for";
  record_waits();
  must(cudaStreamWaitEvent(b, event, 0));
  must(cudaEventRecord(event, b));
  must(cudaStreamWaitEvent(nullptr, event, 0));
  EXPECT_EQ(waits(), (std::vector{Wait{b, a}, Wait{cudaStreamLegacy, b}}));
  must(cudaStreamDestroy(a));
  EXPECT_EQ(streams(), std::vector{b});
}

TEST_F(StandIn, EventsAreRecordedOnTheirOwnDeviceAndTimedIfTheyAre) {
  float time = 0;
  cudaEvent_t timed = nullptr;
  must(cudaEventCreate(&timed));
  EXPECT_EQ(cudaEventElapsedTime(&time, timed, timed), cudaErrorInvalidResourceHandle);
  Hold hold(a);
  must(cudaEventRecord(timed, a));
  must(cudaEventRecord(event, a));
  EXPECT_EQ(cudaEventElapsedTime(&time, timed, timed), cudaErrorNotReady);
  EXPECT_EQ(cudaEventElapsedTime(&time, timed, event), cudaErrorInvalidResourceHandle);
  hold.open();
  must(cudaStreamSynchronize(a));
  must(cudaEventElapsedTime(&time, timed, timed));
  must(cudaSetDevice(1));
  cudaStream_t there = nullptr;
  must(cudaStreamCreate(&there));
  EXPECT_EQ(cudaEventRecord(event, there), cudaErrorInvalidResourceHandle);
  must(cudaStreamWaitEvent(there, event, 0));
  must(cudaStreamSynchronize(there));
}

TEST_F(StandIn, TheLegacyStreamAndBlockingStreamsWaitForEachOther) {
  cudaStream_t blocking = nullptr;
  must(cudaStreamCreate(&blocking));
  {
    Hold hold(blocking);
    must(cudaMemsetAsync(memory, 1, kBytes, cudaStreamLegacy));
    must(cudaMemsetAsync(memory, 1, kBytes, a));
    must(cudaStreamSynchronize(a));
    EXPECT_EQ(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
  }
  must(cudaStreamSynchronize(cudaStreamLegacy));
  {
    Hold hold(cudaStreamLegacy);
    must(cudaMemsetAsync(memory, 1, kBytes, blocking));
    EXPECT_EQ(cudaStreamQuery(blocking), cudaErrorNotReady);
  }
  must(cudaStreamSynchronize(blocking));
}

TEST_F(StandIn, CopiesStayWithinOneAllocationOrRegistration) {
  std::vector<std::byte> host(3 * kBytes);
  std::byte* const bytes = host.data();
  const auto copy = [&](void* to, const void* from, std::size_t size) {
    return cudaMemcpyAsync(to, from, size, cudaMemcpyHostToDevice, a);
  };
  must(copy(memory, pinned, kBytes));
  EXPECT_EQ(copy(memory, pinned, kBytes + 1), cudaErrorInvalidValue);
  EXPECT_EQ(copy(static_cast<std::byte*>(memory) + 1, pinned, kBytes), cudaErrorInvalidValue);
  EXPECT_EQ(copy(pinned, memory, kBytes), cudaErrorInvalidValue);

  must(copy(memory, bytes, kBytes));
  EXPECT_EQ(pageable_copies(), 1U);
  must(cudaHostRegister(bytes, kBytes, cudaHostRegisterPortable));
  must(cudaHostRegister(bytes + kBytes, kBytes, cudaHostRegisterPortable));
  EXPECT_EQ(cudaHostRegister(bytes + kBytes - 1, kBytes, cudaHostRegisterPortable),
            cudaErrorHostMemoryAlreadyRegistered);
  must(copy(memory, bytes + kBytes, kBytes));
  EXPECT_EQ(copy(memory, bytes + 1, kBytes), cudaErrorInvalidValue);           // two registrations
  EXPECT_EQ(copy(memory, bytes + kBytes + 1, kBytes), cudaErrorInvalidValue);  // and beyond
  EXPECT_EQ(pageable_copies(), 1U);
  must(cudaStreamSynchronize(a));
  must(cudaHostUnregister(bytes));
  EXPECT_EQ(cudaHostUnregister(bytes), cudaErrorHostMemoryNotRegistered);
  must(cudaHostUnregister(bytes + kBytes));
  EXPECT_EQ(live().registrations, 0U);
}

TEST_F(StandIn, MemoryInStreamOrderIsThereAndGoesInThatOrder) {
  void* ordered = nullptr;
  must(cudaMallocAsync(&ordered, kBytes, a));
  must(cudaMemsetAsync(ordered, 7, kBytes, a));
  must(cudaMemcpyAsync(pinned, ordered, kBytes, cudaMemcpyDeviceToHost, a));
  must(cudaFreeAsync(ordered, a));
  must(cudaStreamSynchronize(a));
  EXPECT_EQ(static_cast<const char*>(pinned)[kBytes - 1], 7);
  EXPECT_EQ(live().device_bytes, kBytes);
}

TEST_F(StandIn, MisuseOfMemoryEndsTheProgram) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  void* ordered = nullptr;
  EXPECT_DEATH(
      {
        const Hold hold(a);
        must(cudaMallocAsync(&ordered, kBytes, a));
        must(cudaMemsetAsync(ordered, 7, kBytes, b));
        must(cudaStreamSynchronize(b));
      },
      "comes before it in no stream's order");
  EXPECT_DEATH(
      {
        const Hold hold(b);
        must(cudaMemsetAsync(memory, 7, kBytes, b));
        must(cudaFreeAsync(memory, a));
        must(cudaStreamSynchronize(a));
      },
      "operations of other streams still use");
  EXPECT_DEATH(
      {
        must(cudaHostRegister(this, sizeof *this, 0));
        const Hold hold(a);
        must(cudaMemcpyAsync(memory, this, 8, cudaMemcpyHostToDevice, a));
        must(cudaHostUnregister(this));
      },
      "cudaHostUnregister of memory that queued operations use");
  EXPECT_DEATH(
      {
        must(cudaStreamDestroy(a));
        must(cudaStreamSynchronize(a));
      },
      "none, or was destroyed");
}

#if CUDART_VERSION >= 13000

TEST_F(StandIn, ABatchNeedsAStreamAndAttributesForEveryCopy) {
  auto* const to = static_cast<std::byte*>(memory);
  auto* const from = static_cast<std::byte*>(pinned);
  std::vector<void*> tos = {to, to + 8, to + 16};
  std::vector<const void*> froms = {from + 16, from + 8, from};
  std::vector<std::size_t> sizes = {8, 8, 8};
  std::vector<cudaMemcpyAttributes> attributes(2);
  attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  std::vector<std::size_t> first = {0, 2};
  const auto batch = [&](cudaStream_t stream) {
    return cudaMemcpyBatchAsync(tos.data(), froms.data(), sizes.data(), tos.size(),
                                attributes.data(), first.data(), attributes.size(), stream);
  };
  for (int i = 0; i < 24; ++i) from[i] = static_cast<std::byte>(i);
  must(batch(a));
  must(cudaMemcpyAsync(from + 24, to, 24, cudaMemcpyDeviceToHost, a));
  must(cudaStreamSynchronize(a));
  EXPECT_EQ(from[24], std::byte{16});
  EXPECT_EQ(from[47], std::byte{7});
  EXPECT_EQ(batch(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(batch(cudaStreamLegacy), cudaErrorInvalidValue);
  first = {1, 2};
  EXPECT_EQ(batch(a), cudaErrorInvalidValue);
  first = {0, 3};
  EXPECT_EQ(batch(a), cudaErrorInvalidValue);
  first = {0, 2};
  attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderInvalid;
  EXPECT_EQ(batch(a), cudaErrorInvalidValue);
}

#endif

TEST_F(StandIn, HostFunctionsMayNotCallCuda) {
  cudaError_t code = cudaSuccess;
  must(cudaLaunchHostFunc(
      a, [](void* to) { *static_cast<cudaError_t*>(to) = cudaDeviceSynchronize(); }, &code));
  must(cudaStreamSynchronize(a));
  EXPECT_EQ(code, cudaErrorNotPermitted);
  EXPECT_EQ(calls_in_host_functions(), 1U);
}

TEST_F(StandIn, AnErrorIsTheThreadsLastOneUntilItIsTaken) {
  EXPECT_EQ(cudaSetDevice(7), cudaErrorInvalidDevice);
  must(cudaSetDevice(0));
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

class StandInCapture : public StandIn {
 protected:
  void begin(cudaStreamCaptureMode mode) { must(cudaStreamBeginCapture(a, mode)); }
  cudaError_t end(std::size_t expected_nodes = 0) {
    cudaGraph_t graph = nullptr;
    const cudaError_t code = cudaStreamEndCapture(a, &graph);
    EXPECT_EQ(graph != nullptr, code == cudaSuccess);
    if (graph == nullptr) return code;
    std::size_t nodes = 0;
    must(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, expected_nodes);
    must(cudaGraphDestroy(graph));
    return code;
  }
};

TEST_F(StandInCapture, UnsafeCallsInvalidateIt) {
  void* more = nullptr;
  begin(cudaStreamCaptureModeGlobal);
  EXPECT_EQ(cudaMalloc(&more, 1), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);

  begin(cudaStreamCaptureModeGlobal);
  std::thread([&] { EXPECT_EQ(cudaEventQuery(event), cudaErrorStreamCaptureUnsupported); }).join();
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);

  begin(cudaStreamCaptureModeThreadLocal);
  std::thread([&] { must(cudaEventQuery(event)); }).join();
  must(end());

  begin(cudaStreamCaptureModeGlobal);
  std::thread([&] {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    must(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
    must(cudaStreamSynchronize(b));
  }).join();
  must(end());
}

TEST_F(StandInCapture, TheStreamItselfCannotBeAsked) {
  begin(cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaStreamQuery(a), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaMemsetAsync(memory, 0, 1, a), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);

  begin(cudaStreamCaptureModeRelaxed);
  must(cudaEventRecord(event, a));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(StandInCapture, OtherStreamsJoinItThroughEventsAndMustComeBack) {
  cudaEvent_t back = nullptr;
  must(cudaEventCreate(&back));
  for (const bool comes_back : {true, false}) {
    begin(cudaStreamCaptureModeRelaxed);
    must(cudaEventRecord(event, a));
    must(cudaStreamWaitEvent(b, event, 0));
    must(cudaMemsetAsync(memory, 0, 1, b));
    must(cudaEventRecord(back, b));
    if (comes_back) must(cudaStreamWaitEvent(a, back, 0));
    EXPECT_EQ(end(1), comes_back ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
    EXPECT_EQ(cudaStreamWaitEvent(b, back, 0), cudaErrorCapturedEvent);
  }
  must(cudaEventRecord(event, b));
  begin(cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaStreamWaitEvent(a, event, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(StandInCapture, ItEndsOnItsThreadAndKeepsTheLegacyStreamOut) {
  must(cudaStreamDestroy(a));
  must(cudaStreamCreate(&a));
  begin(cudaStreamCaptureModeGlobal);
  std::thread([&] { EXPECT_EQ(end(), cudaErrorStreamCaptureWrongThread); }).join();
  EXPECT_EQ(cudaMemsetAsync(memory, 0, 1, cudaStreamLegacy), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
}

}  // namespace stand_in_test
}  // namespace leat::stand_in
