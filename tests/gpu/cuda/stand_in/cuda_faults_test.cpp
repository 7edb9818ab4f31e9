// CUDA fails: each of its functions in each of Leat's calls, a device for good, and the runtime at
// the end of the process.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/csp/selector.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"

namespace leat::gpu {
namespace cuda_faults_test {

using stand_in::Calls;
using stand_in::fail_call;

constexpr std::size_t kBytes = 1'003;
constexpr cudaError_t kError = cudaErrorDevicesUnavailable;

/// A device in use.
struct Things {
  Device device = open("cuda:0");
  std::optional<Stream> stream{device};
  std::optional<Event> event{std::in_place, device, Timing::kOn};
  std::optional<PinnedBuffer> pinned{std::in_place, device, kBytes};
  std::optional<DeviceBuffer> there{std::in_place, device, kBytes};
  std::optional<DeviceBuffer> elsewhere{std::in_place, device, kBytes};
  // What a call makes stays here: letting go of it would be another call.
  std::optional<Stream> new_stream;
  std::optional<Event> new_event;
  std::optional<PinnedBuffer> new_pinned;
  std::optional<DeviceBuffer> new_there;
  std::optional<DeviceBuffer> in_order{std::in_place, *stream, kBytes};
  std::optional<PinnedArena> arena{std::in_place, device, kBytes};
  Selector selector;
  Things() {
    event->record(*stream);
    stream->sync();
  }
};

struct Call {
  const char* name;
  bool quiet;  // does not throw: it lets go of something
  std::function<void(Things&)> call;
};

std::vector<Call> all_calls() {
  return {
      {"make a stream", false, [](Things& t) { t.new_stream.emplace(t.device); }},
      {"make an event", false, [](Things& t) { t.new_event.emplace(t.device); }},
      {"make pinned memory", false, [](Things& t) { t.new_pinned.emplace(t.device, kBytes); }},
      {"make memory there", false, [](Things& t) { t.new_there.emplace(t.device, kBytes); }},
      {"H2D", false, [](Things& t) { copy_async(*t.stream, t.there->span(), t.pinned->span()); }},
      {"D2H", false, [](Things& t) { copy_async(*t.stream, t.pinned->span(), t.there->span()); }},
      {"D2D", false,
       [](Things& t) { copy_async(*t.stream, t.elsewhere->span(), t.there->span()); }},
      {"copies together", false,
       [](Things& t) {
         const std::array<CopyToDevice, 2> batch{
             {{t.there->span(), t.pinned->span()}, {t.elsewhere->span(), t.pinned->span()}}};
         copy_async(*t.stream, batch);
       }},
      {"make memory in a stream's order", false,
       [](Things& t) { t.new_there.emplace(*t.stream, kBytes); }},
      {"free memory in a stream's order", true, [](Things& t) { t.in_order.reset(); }},
      {"destroy an arena", true, [](Things& t) { t.arena.reset(); }},
      {"destroy a stream whose memory is in use", true,
       [](Things& t) {
         t.stream.reset();
         t.in_order.reset();
       }},
      {"select", false,
       [](Things& t) {
         t.selector.add(on_done(*t.event));
         t.selector.select();
       }},
      {"is a stream captured", false,
       [](Things& t) { static_cast<void>(t.stream->is_capturing()); }},
      {"launch_host", false, [](Things& t) { t.stream->launch_host([] {}); }},
      {"record", false, [](Things& t) { t.event->record(*t.stream); }},
      {"wait", false, [](Things& t) { t.stream->wait(*t.event); }},
      {"sync a stream", false, [](Things& t) { t.stream->sync(); }},
      {"sync an event", false, [](Things& t) { t.event->sync(); }},
      {"is a stream done", false, [](Things& t) { static_cast<void>(t.stream->is_done()); }},
      {"is an event done", false, [](Things& t) { static_cast<void>(t.event->is_done()); }},
      {"await", false, [](Things& t) { t.event->await(); }},
      {"elapsed", false, [](Things& t) { static_cast<void>(elapsed(*t.event, *t.event)); }},
      {"wrap a stream", false,
       [](Things& t) {
         static_cast<void>(StreamRef::from_native(t.device, t.stream->native_handle()));
       }},
      {"open", false, [](Things& t) { t.device = open("cuda:0"); }},
      {"destroy a stream", true, [](Things& t) { t.stream.reset(); }},
      {"destroy an event", true, [](Things& t) { t.event.reset(); }},
      {"free pinned memory", true, [](Things& t) { t.pinned.reset(); }},
      {"free memory there", true, [](Things& t) { t.there.reset(); }},
      {"let go of all", true,
       [](Things& t) {
         t.stream.reset();
         t.event.reset();
         t.arena.reset();
         t.in_order.reset();
         t.pinned.reset();
         t.there.reset();
         t.elsewhere.reset();
         t.device = open("host");
       }},
  };
}

int current_device() {
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  return device;
}

/// Which functions `one` calls, and how often.
Calls functions_of(const Call& one) {
  Calls made;
  {
    Things things;
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
    const Calls before = stand_in::all_calls();
    one.call(things);
    for (const auto& [function, count] : stand_in::all_calls()) {
      const auto found = before.find(function);
      const std::uint64_t new_calls = count - (found == before.end() ? 0 : found->second);
      if (new_calls > 0) made[function] = new_calls;
    }
  }
  stand_in::reset();
  return made;
}

/// The call throws the failure, unless it is no failure of the call's: `function` failed while Leat
/// restored the caller's state, or `open` asked it for something that it can do without.
void expect_told(const Call& one, const std::string& function, std::uint64_t n, Things& things) {
  const bool puts_back =
      n > 1 && (function == "cuCtxSetCurrent" || function == "cudaThreadExchangeStreamCaptureMode");
  const bool tells_only =
      function == "cudaDriverGetVersion" || function == "cudaRuntimeGetVersion" ||
      function == "cudaGetDeviceProperties" || function == "cudaDeviceGetAttribute";
  try {
    one.call(things);
    // How often some functions are called is a matter of time: whether a stream has run, say.
    const bool happened = stand_in::clear_faults();
    EXPECT_TRUE(!happened || one.quiet || puts_back || tells_only) << "nothing was told";
  } catch (const GpuError& error) {
    EXPECT_FALSE(one.quiet);
    EXPECT_EQ(error.code(), kError);
    EXPECT_EQ(error.name(), "cudaErrorDevicesUnavailable");
    EXPECT_EQ(error.device(), "cuda:0");
    EXPECT_FALSE(error.call().empty());
    const bool about_the_call = function.starts_with("cuda") &&
                                function != "cudaThreadExchangeStreamCaptureMode" &&
                                !function.starts_with("cudaGet");
    EXPECT_TRUE(!about_the_call || error.call().starts_with(function)) << error.what();
    EXPECT_NE(std::string(error.what()).find("nvidia-smi -q -d COMPUTE"), std::string::npos)
        << "says not what to do: " << error.what();
  }
  if (!puts_back) {
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  }
}

TEST(CudaFaults, EachFunctionThatFailsInAnyCallIsToldAndEverythingWorksOn) {
  std::size_t faults = 0;
  for (const Call& one : all_calls()) {
    for (const auto& [function, count] : functions_of(one)) {
      for (std::uint64_t n = 1; n <= count; ++n) {
        SCOPED_TRACE(std::string(one.name) + ": " + function + ", call " + std::to_string(n));
        ++faults;
        {
          Things things;
          ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
          fail_call(function, kError, n);
          expect_told(one, function, n, things);
          support::expect_works(things.device);
        }
        stand_in::reset();
      }
    }
  }
  EXPECT_GT(faults, 100U);
}

// CUDA keeps one error for each thread. The driver's failures do not become it.
TEST(CudaFaults, OneOfTheDriversTakesNoErrorOfTheCallersAway) {
  Things things;
  fail_call("cuStreamGetCtx", kError);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_THROW(
      static_cast<void>(StreamRef::from_native(things.device, things.stream->native_handle())),
      GpuError);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST(CudaFaults, WhoAwaitsIsToldWhatThePollerWasAnswered) {
  run(
      [] {
        const Device device = open("cuda:0");
        const Stream stream(device);
        const Event event(device);
        const support::Gate gate(stream);
        event.record(stream);
        TaskGroup group;
        for (int i = 0; i < 3; ++i) {
          group.go([&] {
            try {
              event.await();
              ADD_FAILURE() << "nothing was told";
            } catch (const GpuError& error) {
              EXPECT_EQ(error.code(), kError);
              EXPECT_EQ(error.call(), "cudaEventQuery");
            }
          });
        }
        yield();  // one worker: they have asked, and are parked
        fail_call("cudaEventQuery", kError);
        group.wait();
        EXPECT_FALSE(event.is_done());
        gate.open();
        event.await();
      },
      {.workers = 1});
}

TEST(CudaFaults, ADeviceThatFailsSaysSoForEver) {
  {
    Things things;
    const Device second = open("cuda:1");
    bool ran = false;
    stand_in::fail_device(0, cudaErrorIllegalAddress, 2);
    copy_async(*things.stream, things.there->span(), things.pinned->span());
    things.stream->launch_host([&ran] { ran = true; });
    EXPECT_THROW(things.stream->sync(), GpuError);
    EXPECT_FALSE(ran);
    for (const Call& one : all_calls()) {
      SCOPED_TRACE(one.name);
      const std::string name = one.name;
      // To open a device, or to ask whose a stream is, is nothing that the device does.
      if (one.quiet || name == "open" || name == "wrap a stream") continue;
      for (int i = 0; i < 2; ++i) {
        try {
          one.call(things);
          ADD_FAILURE() << "went on";
        } catch (const GpuError& error) {
          EXPECT_EQ(error.code(), cudaErrorIllegalAddress);
          EXPECT_EQ(error.name(), "cudaErrorIllegalAddress");
          EXPECT_EQ(error.device(), "cuda:0");
        }
      }
    }
    support::expect_works(second);
  }
  stand_in::reset();  // what a failed device has cannot be given back
}

// A fiber waits for an event when fail() is called.
template <class Fail>
void expect_waiter_told(const Things& things, cudaError_t code, const Fail& fail) {
  run(
      [&] {
        const support::Gate gate(*things.stream);
        things.event->record(*things.stream);
        TaskGroup group;
        group.go([&] {
          try {
            things.event->await();
            ADD_FAILURE() << "nothing was told";
          } catch (const GpuError& error) {
            EXPECT_EQ(error.code(), code);
          }
        });
        yield();
        fail();
        group.wait();
      },
      {.workers = 1});
}

TEST(CudaFaults, ADeviceThatFailsWakesWhoAwaits) {
  {
    Things things;
    expect_waiter_told(things, cudaErrorECCUncorrectable,
                       [] { stand_in::fail_device(0, cudaErrorECCUncorrectable); });
  }
  stand_in::reset();
}

TEST(CudaFaults, HandlesThatOutliveTheRuntimeAreDestroyedQuietly) {
  {
    Things things;
    expect_waiter_told(things, cudaErrorCudartUnloading, [] { stand_in::unload(); });
    for (const Call& one : all_calls()) {
      SCOPED_TRACE(one.name);
      if (one.quiet || std::string(one.name) == "open") continue;
      EXPECT_THROW(one.call(things), GpuError);
    }
  }
  stand_in::reset();
}

}  // namespace cuda_faults_test
}  // namespace leat::gpu
