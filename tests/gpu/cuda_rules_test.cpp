// How Leat and a user's own CUDA code live in one process: context, current device, last error and
// capture mode of the calling thread. Written against CUDA's interface and Leat's alone.
#include "tests/gpu/cuda_rules.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"
#include "tests/support/gate.h"

namespace leat::gpu {
namespace cuda_rules_test {

using namespace cuda_rules;  // NOLINT(google-build-using-namespace): fixtures of this test
using namespace support;     // NOLINT(google-build-using-namespace): fixtures of this test

/// Something that Leat can be asked, and whether CUDA may then give an error; that something is not
/// ready is one.
struct Call {
  std::string name;
  bool fails;
  std::function<void()> call;
};

/// What calls are made with.
struct Things {
  explicit Things(const Device& a_device)
      : device(a_device),
        stream(device),
        held(device),
        pinned(device, kBytes),
        there(device, kBytes),
        elsewhere(device, kBytes),
        event(device),
        from(device, Timing::kOn),
        to(device, Timing::kOn),
        pending(device, Timing::kOn),
        spare_stream(device),
        spare_event(device),
        spare_pinned(std::in_place, device, kBytes),
        spare_there(std::in_place, device, kBytes) {
    from.record(stream);
    to.record(stream);
    stream.sync();
  }
  Device device;
  Stream stream, held;
  PinnedBuffer pinned;
  DeviceBuffer there, elsewhere;
  Event event, from, to, pending;
  std::optional<Stream> spare_stream;
  std::optional<Event> spare_event;
  std::optional<PinnedBuffer> spare_pinned;
  std::optional<DeviceBuffer> spare_there;
};

/// All kinds of calls, in an order in which each can be made.
std::vector<Call> all_calls(Things& t) {
  constexpr std::size_t kTooMuch = std::size_t{1} << 60;
  const auto gate = std::make_shared<std::optional<Gate>>();
  return {
      {"list", false, [] { static_cast<void>(list()); }},
      {"open", false, [] { static_cast<void>(open("cuda:0")); }},
      {"open another", true, [] { EXPECT_THROW(static_cast<void>(open("cuda:99")), Error); }},
      {"make a stream", false, [&] { static_cast<void>(Stream(t.device)); }},
      {"make an event", false, [&] { static_cast<void>(Event(t.device, Timing::kOn)); }},
      {"make pinned memory", false, [&] { static_cast<void>(PinnedBuffer(t.device, kBytes)); }},
      {"make memory there", false, [&] { static_cast<void>(DeviceBuffer(t.device, kBytes)); }},
      {"make too much pinned", true,
       [&] { fails<OutOfMemory>([&] { PinnedBuffer(t.device, kTooMuch); }); }},
      {"make too much there", true,
       [&] { fails<OutOfMemory>([&] { DeviceBuffer(t.device, kTooMuch); }); }},
      {"make an arena", false, [&] { static_cast<void>(PinnedArena(t.device, kBytes)); }},
      {"make memory in a stream's order", false,
       [&] { static_cast<void>(DeviceBuffer(t.stream, kBytes)); }},
      {"copies together", false,
       [&] {
         const std::array<CopyToDevice, 2> batch{
             {{t.there.span(), t.pinned.span()}, {t.elsewhere.span(), t.pinned.span()}}};
         copy_async(t.stream, batch);
       }},
      {"select", true,
       [&] {
         t.event.record(t.stream);
         select(on_done(t.event));
       }},
      {"H2D", false, [&] { copy_async(t.stream, t.there.span(), t.pinned.span()); }},
      {"D2D", false, [&] { copy_async(t.stream, t.elsewhere.span(), t.there.span()); }},
      {"D2H", false, [&] { copy_async(t.stream, t.pinned.span(), t.elsewhere.span()); }},
      {"launch_host", false, [&] { t.stream.launch_host([] {}); }},
      {"record", false, [&] { t.event.record(t.stream); }},
      {"wait", false, [&] { t.stream.wait(t.event); }},
      {"sync an event", false, [&] { t.event.sync(); }},
      {"await on a thread", false, [&] { t.event.await(); }},
      {"await on a fiber", true,
       [&] {
         t.event.record(t.stream);
         run([&] { t.event.await(); }, {.workers = 1});
       }},
      {"sync a stream", false, [&] { t.stream.sync(); }},
      {"is a stream done", false, [&] { EXPECT_TRUE(t.stream.is_done()); }},
      {"is an event done", false, [&] { EXPECT_TRUE(t.event.is_done()); }},
      {"elapsed", false, [&] { static_cast<void>(elapsed(t.from, t.to)); }},
      {"elapsed of untimed ones", true,
       [&] { fails([&] { static_cast<void>(elapsed(t.event, t.event)); }); }},
      {"hold", false,
       [&, gate] {
         gate->emplace(t.held);
         t.pending.record(t.held);
       }},
      {"is a held stream done", true, [&] { EXPECT_FALSE(t.held.is_done()); }},
      {"is a held event done", true, [&] { EXPECT_FALSE(t.pending.is_done()); }},
      {"elapsed to a held event", true,
       [&] { fails([&] { static_cast<void>(elapsed(t.from, t.pending)); }); }},
      {"let go", false,
       [&, gate] {
         gate->reset();
         t.held.sync();
       }},
      {"wrap null", true,
       [&] { fails([&] { static_cast<void>(StreamRef::from_native(t.device, nullptr)); }); }},
      {"wrap a stream", false,
       [&] { static_cast<void>(StreamRef::from_native(t.device, t.stream.native_handle())); }},
      {"destroy a stream", false, [&] { t.spare_stream.reset(); }},
      {"destroy an event", false, [&] { t.spare_event.reset(); }},
      {"free pinned memory", false, [&] { t.spare_pinned.reset(); }},
      {"free memory there", false, [&] { t.spare_there.reset(); }},
  };
}

/// Calls f() on a thread that CUDA has not seen.
template <class F>
void on_a_new_thread(const F& f) {
  std::thread(f).join();
}

TEST_F(CudaRules, ACallerWithoutAContextHasNoneAfterwards) {
  Things things(open("cuda:0"));
  for (const Call& one : all_calls(things)) {
    SCOPED_TRACE(one.name);
    on_a_new_thread([&] {
      EXPECT_EQ(current_context(), nullptr);
      one.call();
      EXPECT_EQ(current_context(), nullptr);
      EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    });
  }
}

/// The thread's capture mode.
cudaStreamCaptureMode capture_mode() {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  must(cudaThreadExchangeStreamCaptureMode(&mode));
  cudaStreamCaptureMode same = mode;
  must(cudaThreadExchangeStreamCaptureMode(&same));
  return mode;
}

void set_capture_mode(cudaStreamCaptureMode mode) {
  must(cudaThreadExchangeStreamCaptureMode(&mode));
}

TEST_F(CudaRules, TheCallersDeviceContextAndCaptureModeStay) {
  for (int device = 0; device < devices_; ++device) {
    Things things(open("cuda:0"));
    for (const Call& one : all_calls(things)) {
      SCOPED_TRACE(one.name + " with cuda:" + std::to_string(device) + " current");
      on_a_new_thread([&] {
        must(cudaSetDevice(device));
        const CUcontext before = current_context();
        set_capture_mode(cudaStreamCaptureModeThreadLocal);
        one.call();
        EXPECT_EQ(capture_mode(), cudaStreamCaptureModeThreadLocal);
        EXPECT_EQ(current_context(), before);
        int after = -1;
        must(cudaGetDevice(&after));
        EXPECT_EQ(after, device);
      });
    }
  }
}

TEST_F(CudaRules, FailuresOfLeatsAreNotTheCallersLastError) {
  Things things(open("cuda:0"));
  for (const Call& one : all_calls(things)) {
    SCOPED_TRACE(one.name);
    must(cudaSetDevice(0));
    one.call();
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
}

TEST_F(CudaRules, TheCallersLastErrorStaysWhereNothingFails) {
  Things things(open("cuda:0"));
  must(cudaSetDevice(0));
  for (const Call& one : all_calls(things)) {
    SCOPED_TRACE(one.name);
    EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
    one.call();
    const cudaError_t left = cudaGetLastError();
    EXPECT_TRUE(left == cudaErrorInvalidDevice || one.fails) << cudaGetErrorName(left);
  }
}

TEST_F(CudaRules, TheCapabilitiesAreAGpus) {
  const Capabilities can = open("cuda:0").capabilities();
  EXPECT_FALSE(can.host_kernels);
  EXPECT_FALSE(can.device_memory_is_host_memory);
  EXPECT_TRUE(can.cuda_kernels);
  EXPECT_FALSE(can.virtual_time);
  EXPECT_TRUE(can.foreign_streams);
}

/// Without opening it. Where there is no device, the test is skipped.
bool cuda_is_there() {
  const DeviceList all = list();
  if (all.devices.front().name == "cuda:0") return true;
  [&] { GTEST_SKIP() << all.cuda_status; }();
  return false;
}

TEST(CudaProcess, ToListTheDevicesMakesNoContext) {
  if (!cuda_is_there()) return;
  const auto initialise = driver_function<decltype(cuInit)>("cuInit", 2000);
  const auto get_state =
      driver_function<decltype(cuDevicePrimaryCtxGetState)>("cuDevicePrimaryCtxGetState", 7000);
  ASSERT_EQ(initialise(0), CUDA_SUCCESS);
  const auto active = [&] {
    unsigned flags = 0;
    int is_active = -1;
    EXPECT_EQ(get_state(0, &flags, &is_active), CUDA_SUCCESS);
    return is_active;
  };
  if (active() == 1) GTEST_SKIP() << "the device is in use: run this test alone";
  EXPECT_EQ(list().devices.front().name, "cuda:0");
  EXPECT_EQ(active(), 0);
}

TEST_F(CudaRules, AwaitInVirtualTimeIsRefused) {
  VirtualClock clock;
  run(
      [] {
        const Device device = open("cuda:0");
        const Stream stream(device);
        const Event event(device);
        EXPECT_THROW(event.await(), std::logic_error);
        EXPECT_THROW(static_cast<void>(on_done(event)), std::logic_error);
        event.record(stream);
        EXPECT_THROW(event.await(), std::logic_error);
        EXPECT_THROW(static_cast<void>(on_done(event)), std::logic_error);
        event.sync();
      },
      {.clock = &clock});
}

}  // namespace cuda_rules_test
}  // namespace leat::gpu
