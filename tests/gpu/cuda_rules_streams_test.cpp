// Leat's streams and events beside the user's own streams. Written against CUDA's interface and
// Leat's alone.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "tests/gpu/cuda_rules.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"

namespace leat::gpu {
namespace cuda_rules_streams_test {

using namespace cuda_rules;  // NOLINT(google-build-using-namespace): fixtures of this test
using namespace support;     // NOLINT(google-build-using-namespace): fixtures of this test

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

}  // namespace cuda_rules_streams_test
}  // namespace leat::gpu
