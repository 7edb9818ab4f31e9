// How Leat and a user's own CUDA code live in one process: whose context, whose errors, whose
// streams, whose captures. Written against CUDA's interface and Leat's alone.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"
#include "tests/support/backends.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"

namespace leat::gpu {
namespace cuda_rules_test {

using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

constexpr std::size_t kBytes = 10'007;
constexpr std::byte kPoison{0xA5};
constexpr unsigned kStreamFlags[] = {cudaStreamDefault, cudaStreamNonBlocking};

/// A call of the user's to CUDA, which succeeds.
void must(cudaError_t code) { ASSERT_EQ(code, cudaSuccess) << cudaGetErrorName(code); }

/// A function of the driver's, as it was in CUDA `version`.
template <class Function>
Function* driver_function(const char* name, unsigned version) {
  void* function = nullptr;
#if CUDART_VERSION >= 12050
  must(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableLegacyStream, nullptr));
#else
  static_cast<void>(version);
  must(cudaGetDriverEntryPoint(name, &function, cudaEnableLegacyStream, nullptr));
#endif
  return reinterpret_cast<Function*>(function);
}

/// Without opening it. Where there is no device, the test is skipped.
bool cuda_is_there() {
  const DeviceList all = list();
  if (all.devices.front().name == "cuda:0") return true;
  [&] { GTEST_SKIP() << all.cuda_status; }();
  return false;
}

class CudaRules : public testing::Test {
 protected:
  void SetUp() override {
    if (!open_or_skip("cuda:0")) return;
    devices_ = static_cast<int>(list().devices.size()) - 1;
    get_current_ = driver_function<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent", 4000);
  }

  [[nodiscard]] CUcontext current_context() const {
    CUcontext context = nullptr;
    EXPECT_EQ(get_current_(&context), CUDA_SUCCESS);
    return context;
  }

  int devices_ = 0;

 private:
  decltype(cuCtxGetCurrent)* get_current_ = nullptr;
};

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

/// A stream that the user has made.
class UserStream {
 public:
  explicit UserStream(unsigned flags) { must(cudaStreamCreateWithFlags(&stream_, flags)); }
  ~UserStream() { must(cudaStreamDestroy(stream_)); }
  UserStream(const UserStream&) = delete;
  UserStream& operator=(const UserStream&) = delete;
  operator cudaStream_t() const noexcept { return stream_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaStream_t stream_ = nullptr;
};

/// Something that Leat can be asked, and whether CUDA may then give an error; that something is not
/// ready is one.
struct Call {
  std::string name;
  bool fails;
  std::function<void()> call;
};

template <class F>
void fails(const F& f) {
  EXPECT_THROW(f(), GpuError);
}

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
      {"make too much pinned", true, [&] { fails([&] { PinnedBuffer(t.device, kTooMuch); }); }},
      {"make too much there", true, [&] { fails([&] { DeviceBuffer(t.device, kTooMuch); }); }},
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

TEST_F(CudaRules, StreamsThatMeanDifferentThingsAreRefused) {
  const Device device = open("cuda:0");
  fails([&] { static_cast<void>(StreamRef::from_native(device, nullptr)); });
  fails([&] { static_cast<void>(StreamRef::from_native(device, cudaStreamPerThread)); });
}

TEST_F(CudaRules, AStreamOfAnotherDeviceIsRefused) {
  if (devices_ < 2) GTEST_SKIP() << "this machine has one device";
  const Device first = open("cuda:0");
  const Device second = open("cuda:1");
  must(cudaSetDevice(1));
  const UserStream stream(cudaStreamNonBlocking);
  must(cudaSetDevice(0));
  try {
    static_cast<void>(StreamRef::from_native(first, stream));
    ADD_FAILURE() << "was taken";
  } catch (const GpuError& error) {
    EXPECT_NE(error.name().find("cuda:1"), std::string::npos) << error.what();
    EXPECT_EQ(error.device(), "cuda:0");
  }
  EXPECT_EQ(StreamRef::from_native(second, stream).native_handle(), stream);
}

/// The user's side is raw CUDA on `stream`, Leat's is `leats`.
void expect_events_order_both_ways(const Device& device, cudaStream_t stream) {
  const StreamRef users = StreamRef::from_native(device, stream);
  const auto bytes = random_bytes(kBytes, 21);
  const PinnedBuffer from = pinned_copy(device, bytes);
  const DeviceBuffer there(device, kBytes);
  const Stream leats(device);
  const Event copied(device);
  const Event back(device);
  for (const bool user_first : {true, false}) {
    SCOPED_TRACE(user_first ? "Leat waits for the user" : "the user waits for Leat");
    const PinnedBuffer to = pinned_filled(device, kBytes, kPoison);
    const Gate gate(user_first ? users : leats.ref());
    if (user_first) {
      must(cudaMemcpyAsync(there.data(), from.data(), kBytes, cudaMemcpyHostToDevice, stream));
      copied.record(users);
      leats.wait(copied);
      copy_async(leats, to.span(), there.span());
      back.record(leats);
    } else {
      copy_async(leats, there.span(), from.span());
      copied.record(leats);
      users.wait(copied);
      must(cudaMemcpyAsync(to.data(), there.data(), kBytes, cudaMemcpyDeviceToHost, stream));
      back.record(users);
    }
    EXPECT_FALSE(copied.is_done());
    EXPECT_FALSE(back.is_done());
    gate.open();
    back.await();
    expect_bytes(to.span().bytes(), bytes);
  }
  users.sync();
  EXPECT_TRUE(users.is_done());
}

TEST_F(CudaRules, EventsOrderTheUsersStreamsAndLeatsBothWays) {
  const Device device = open("cuda:0");
  must(cudaSetDevice(0));
  for (const unsigned flags : kStreamFlags) {
    SCOPED_TRACE(flags == cudaStreamDefault ? "blocking" : "non-blocking");
    const UserStream stream(flags);
    expect_events_order_both_ways(device, stream);
  }
  SCOPED_TRACE("the legacy default stream");
  expect_events_order_both_ways(device, cudaStreamLegacy);
}

TEST_F(CudaRules, LeatCopiesOnTheUsersStreams) {
  const Device device = open("cuda:0");
  must(cudaSetDevice(0));
  for (const unsigned flags : kStreamFlags) {
    const UserStream stream(flags);
    const StreamRef users = StreamRef::from_native(device, stream);
    const auto bytes = random_bytes(kBytes, 22);
    const PinnedBuffer from = pinned_copy(device, bytes);
    const PinnedBuffer to = pinned_filled(device, kBytes, kPoison);
    const DeviceBuffer there(device, kBytes);
    copy_async(users, there.span(), from.span());
    copy_async(users, to.span(), there.span());
    must(cudaStreamSynchronize(stream));
    expect_bytes(to.span().bytes(), bytes);
  }
}

TEST_F(CudaRules, TheLegacyStreamIsForEverythingButCopies) {
  const Device device = open("cuda:0");
  const StreamRef legacy = StreamRef::from_native(device, cudaStreamLegacy);
  const PinnedBuffer pinned = pinned_filled(device, kBytes, kPoison);
  const DeviceBuffer there(device, kBytes);
  const Event event(device);
  fails([&] { copy_async(legacy, there.span(), pinned.span()); });
  fails([&] { copy_async(legacy, pinned.span(), there.span()); });
  const CopyToDevice alone{there.span(), pinned.span()};
  fails([&] { copy_async(legacy, std::span(&alone, 1)); });
  fails([&] { copy_async(legacy, std::span<const CopyToDevice>{}); });
  bool ran = false;
  event.record(legacy);
  legacy.wait(event);
  legacy.launch_host([&ran] { ran = true; });
  legacy.sync();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(legacy.is_done());
}

// The user's work on the legacy stream, most often unintended, is nothing that Leat's waits for.
TEST_F(CudaRules, TheLegacyStreamAndLeatsDoNotWaitForEachOther) {
  const Device device = open("cuda:0");
  const StreamRef legacy = StreamRef::from_native(device, cudaStreamLegacy);
  const Stream leats(device);
  const Event reached(device);
  for (const bool hold_legacy : {true, false}) {
    SCOPED_TRACE(hold_legacy ? "the legacy stream is held" : "Leat's is held");
    const StreamRef held = hold_legacy ? legacy : leats.ref();
    const StreamRef other = hold_legacy ? leats.ref() : legacy;
    const Gate gate(held);
    reached.record(other);
    reached.sync();  // would not return
    EXPECT_TRUE(other.is_done());
    EXPECT_FALSE(held.is_done());
    gate.open();
    held.sync();
  }
}

// CUDA's own events know their latest record only. A fiber that is slower than a loop that records
// would wait for ever.
TEST_F(CudaRules, AnAwaitIsForTheRecordThatWasTheLatestWhenItBegan) {
  const Device device = open("cuda:0");
  run(
      [&] {
        const Stream stream(device);
        const Event event(device);
        const Gate first(stream);
        event.record(stream);
        TaskGroup group;
        group.go([&] { event.await(); });
        yield();  // on one worker: it is parked
        const Gate second(stream);
        event.record(stream);
        first.open();
        group.wait();  // would not return
        EXPECT_FALSE(event.is_done());
        second.open();
        event.await();
      },
      {.workers = 1});
}

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
  fails([&] { DeviceBuffer(device, std::size_t{1} << 60); });
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

TEST_F(CudaRules, AnEventOfTheHostDeviceIsNoneToWaitFor) {
  const Device device = open("cuda:0");
  const Device host = open("host");
  const Stream here(host);
  const Stream there(device);
  const Event event_here(host);
  const Event event_there(device);
  event_here.record(here);
  event_there.record(there);
  fails([&] { there.wait(event_here); });
  fails([&] { here.wait(event_there); });
  support::expect_works(device);
  support::expect_works(host);
}

TEST_F(CudaRules, TheCapabilitiesAreAGpus) {
  const Capabilities can = open("cuda:0").capabilities();
  EXPECT_FALSE(can.host_kernels);
  EXPECT_FALSE(can.device_memory_is_host_memory);
  EXPECT_TRUE(can.cuda_kernels);
  EXPECT_FALSE(can.virtual_time);
  EXPECT_TRUE(can.foreign_streams);
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
