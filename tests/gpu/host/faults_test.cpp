// Planned faults of a host device: which operation fails, and which error every caller gets.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/stream.h"
#include "tests/support/bytes.h"
#include "tests/support/gpu_error.h"
#include "tests/support/run.h"

namespace leat::gpu {
namespace faults_test {

using namespace std::chrono_literals;
using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

constexpr std::size_t kPart = 100;
constexpr std::size_t kParts = 8;

/// Runs `body` on a plain thread, and as fibers in virtual time.
template <class Body>
void in_each_place(const Body& body) {
  body();
  for (const int workers : {1, 2}) {
    in_virtual_time({.workers = workers}, body);
  }
}

/// Whether the device has failed with a text that has `what`.
bool has_failed(const Stream& stream, const std::string& what) {
  try {
    stream.sync();
    return false;
  } catch (const GpuError& error) {
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    EXPECT_EQ(error.device(), stream.device().name());
    return true;
  }
}

TEST(HostFaults, TheCopyThatIsNamedCopiesNothingAndNoneAfterItDoes) {
  for (std::uint64_t n = 1; n <= kParts + 1; ++n) {
    in_each_place([n] {
      const Device device = open_host({.faults = {.copy = n}});
      const Stream stream(device);
      const PinnedBuffer from = pinned_filled(device, kPart * kParts, std::byte{1});
      const DeviceBuffer there(device, kPart * kParts);
      fill({there.data(), there.size()}, std::byte{0});
      std::vector<Event> ends;
      for (std::size_t i = 0; i < kParts; ++i) {
        ends.emplace_back(device);
        try {
          stream.launch_host([] {});  // counts for nothing
          copy_async(stream, there.subspan(i * kPart, kPart), from.subspan(i * kPart, kPart));
          ends.back().record(stream);
        } catch (const GpuError&) {
          EXPECT_GE(i + 1, n);  // it has failed already
        }
      }
      EXPECT_EQ(has_failed(stream, "a copy failed"), n <= kParts);
      const std::size_t good = (n - 1) * kPart;
      const std::span<const std::byte> result(there.data(), there.size());
      expect_filled(result.first(good), std::byte{1});
      expect_filled(result.subspan(good), std::byte{0});
    });
  }
}

TEST(HostFaults, TheKernelThatIsNamedIsNotCalledAndNoneAfterItIs) {
  for (std::uint64_t n = 1; n <= kParts + 1; ++n) {
    in_each_place([n] {
      const Device device = open_host({.faults = {.kernel = n}});
      const Stream stream(device);
      const Stream other(device);
      std::uint64_t ran = 0;
      bool refused = false;
      for (std::uint64_t i = 0; i < kParts; ++i) {
        try {
          stream.launch_host([&ran] { ++ran; });
        } catch (const GpuError&) {
          refused = true;
        }
      }
      EXPECT_EQ(has_failed(stream, "a kernel failed"), n <= kParts);
      EXPECT_EQ(has_failed(other, "a kernel failed"), n <= kParts);
      EXPECT_EQ(ran, n - 1);
      EXPECT_TRUE(!refused || n <= kParts);
    });
  }
}

// Five operations a round: a copy, two records, a wait for the other stream, a kernel.
TEST(HostFaults, ADeviceThatIsLostAtAnyOperationTellsWhoeverWaits) {
  for (std::uint64_t n = 1; n <= 11; ++n) {
    in_each_place([n] {
      const Device device = open_host({.faults = {.lost_at = n}});
      const Stream copies(device);
      const Stream compute(device);
      const Event copied(device);
      const Event computed(device);
      const PinnedBuffer from = pinned_filled(device, kPart, std::byte{1});
      const DeviceBuffer there(device, kPart);
      int rounds = 0;
      const auto train = [&] {
        for (; rounds < 2; ++rounds) {
          copy_async(copies, there.span(), from.span());
          copied.record(copies);
          compute.wait(copied);
          compute.launch_host([] {});
          computed.record(compute);
          computed.await();
        }
      };
      if (n <= 8) {  // two rounds have 8 to 10: a wait for what is done already is none
        expect_gpu_error(train, {"host:0", "device lost"});
        EXPECT_LT(rounds, 2);
      } else {
        try {
          train();
        } catch (const GpuError&) {
          EXPECT_LE(n, 10U);
        }
      }
      if (rounds == 2) return;
      const std::vector<std::string_view> says = {"device lost"};
      expect_gpu_error([&] { copies.sync(); }, says);
      expect_gpu_error([&] { compute.launch_host([] {}); }, says);
      expect_gpu_error([&] { computed.record(compute); }, says);
      expect_gpu_error([&] { select(on_done(computed)); }, says);
      expect_gpu_error([&] { const Stream another(device); }, says);
    });
  }
}

TEST(HostFaults, WhoAwaitsWhenTheDeviceIsLostIsToldAtThatMoment) {
  in_virtual_time([&] {
    const Device device = open_host({.faults = {.lost_at = 3}});
    const Stream stream(device);
    const Event event(device);
    stream.launch_host([] {}, 2ms);
    stream.launch_host([] {}, 3ms);
    stream.launch_host([] {}, 4ms);
    event.record(stream);
    TaskGroup group;
    for (int i = 0; i < 3; ++i) {
      group.go([&] { expect_gpu_error([&] { event.await(); }, {"device lost"}); });
      group.go([&] { expect_gpu_error([&] { select(on_done(event)); }, {"device lost"}); });
    }
    group.wait();
    EXPECT_EQ(support::elapsed(), 5ms);
  });
}

TEST(HostFaults, AnotherDeviceWorksOn) {
  in_each_place([] {
    const Device broken = open_host({.faults = {.lost_at = 1}}, 0);
    const Device sound = open_host({}, 1);
    const Stream stream(broken);
    const DeviceBuffer memory(broken, kPart);  // goes without a wait
    EXPECT_TRUE(has_failed(stream, "device lost"));
    EXPECT_THROW(DeviceBuffer(broken, kPart), GpuError);
    expect_works(sound);
  });
}

}  // namespace faults_test
}  // namespace leat::gpu
