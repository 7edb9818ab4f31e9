// How a kernel of the host device fails: what later calls throw, and what a failed device refuses.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string_view>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/gpu_error.h"
#include "tests/support/run.h"

namespace leat::gpu {
namespace host_stream_failure_test {

using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

TEST(HostStream, AKernelThatThrowsIsNamedByEveryLaterCall) {
  const Device device = open("host:7");
  const Stream stream(device);
  const Stream other(device);
  const Event before(device);
  const Event after(device);
  before.record(stream);
  bool ran_after = false;
  const Gate gate(stream);
  stream.launch_host([] { throw std::runtime_error("bad kernel"); });
  stream.launch_host([&ran_after] { ran_after = true; });
  after.record(stream);
  gate.open();
  const std::vector<std::string_view> says = {"host:7", "bad kernel", "accepts no more work"};
  expect_gpu_error([&] { after.await(); }, says);
  expect_gpu_error([&] { stream.sync(); }, says);
  expect_gpu_error([&] { other.launch_host([] {}); }, says);
  EXPECT_FALSE(ran_after);
  expect_gpu_error([&] { before.await(); }, says);
  expect_works(open("host:7"));
}

TEST(HostStream, AKernelThatThrowsSomethingUnknownFailsItToo) {
  const Device device = open("host");
  const Stream stream(device);
  const Event event(device);
  const Gate gate(stream);
  stream.launch_host([] { throw 42; });  // NOLINT(hicpp-exception-baseclass): that is the test
  event.record(stream);
  gate.open();
  expect_gpu_error([&] { event.sync(); }, {"unknown exception"});
}

TEST(HostStream, AFailureReachesWhoWaitsForItsEvents) {
  const Device failing = open("host:1");
  const Device waiting = open("host:2");
  const Device late = open("host:3");
  const Stream producer(failing);
  const Stream consumer(waiting);
  const Stream late_consumer(late);
  const Event produced(failing);
  bool consumed = false;
  const Gate gate(producer);
  producer.launch_host([] { throw std::runtime_error("bad kernel"); });
  produced.record(producer);
  consumer.wait(produced);
  consumer.launch_host([&consumed] { consumed = true; });
  const Event end(waiting);
  end.record(consumer);
  gate.open();
  expect_gpu_error([&] { end.sync(); }, {"host:1", "bad kernel"});
  EXPECT_FALSE(consumed);
  expect_gpu_error([&] { late_consumer.wait(produced); }, {"host:1", "bad kernel"});
  expect_works(late);
}

TEST(HostStream, TimesOfAFailedDeviceAreAnError) {
  support::in_virtual_time([] {
    const Device device = open("host");
    const Stream failing(device);
    const Stream other(device);
    const Event start(device, Timing::kOn);
    const Event end(device, Timing::kOn);
    failing.launch_host([] { throw std::runtime_error("bad kernel"); });
    start.record(other);
    end.record(other);
    expect_gpu_error([&] { end.await(); }, {"bad kernel"});
    expect_gpu_error([&] { static_cast<void>(elapsed(start, end)); }, {"bad kernel"});
  });
}

}  // namespace host_stream_failure_test
}  // namespace leat::gpu
