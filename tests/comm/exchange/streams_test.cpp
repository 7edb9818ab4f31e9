// Streams: what a device has still to do holds back pieces, and results.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "tests/comm/support/far_device.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/gate.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace exchange_streams_test {

using namespace std::chrono_literals;
using leat::support::elapsed;
using leat::support::Gate;
using support::in_virtual_time;

gpu::DeviceSpan span_of(std::vector<float>& data) {
  return {data.data(), data.size() * sizeof(float)};
}

TEST(ExchangeStreams, AGradientLeavesOnceTheWorkBeforeReadyHasRun) {
  in_virtual_time(2, {}, [](Communicator& me) {
    const gpu::Device device = gpu::open("host");
    const gpu::Stream stream(device);
    std::vector<float> gradient(10);
    GradientExchange exchange(me, {{"w", span_of(gradient)}}, {.weights = Weights::kOnes});
    exchange.begin_step(1);
    // Rank 1's gradient is written 5 ms later, and rank 0's 2 ms later.
    stream.launch_host([&] { gradient.assign(10, 1); }, me.rank() == 1 ? 5ms : 2ms);
    exchange.ready(0, stream);
    EXPECT_EQ(elapsed(), 0ms) << "ready() returns at once";
    stream.launch_host([] {}, 100ms);  // later work holds nothing back
    exchange.end_backward();
    EXPECT_EQ(elapsed(), 0ms);
    const gpu::Stream other(device);
    EXPECT_TRUE(exchange.await(0, other));
    EXPECT_EQ(elapsed(), 5ms);
    EXPECT_EQ(gradient, std::vector<float>(10, 2));
    stream.sync();
  });
}

TEST(ExchangeStreams, ReadyWaitsForItsEventHoweverLong) {
  for (const support::RankPlace& place : support::rank_places()) {
    place.run(2, {}, [](Communicator& me) {
      const gpu::Device device = gpu::open("host");
      const gpu::Stream stream(device);
      std::vector<float> held(10);
      std::vector<float> free(10, 1);
      GradientExchange exchange(me, {{"held", span_of(held)}, {"free", span_of(free)}},
                                {.weights = Weights::kOnes});
      exchange.begin_step(1);
      const Gate gate(stream);
      stream.launch_host([&] { held.assign(10, 3); });
      exchange.ready(0, stream);
      exchange.ready(1);
      exchange.end_backward();
      EXPECT_TRUE(exchange.await(1)) << "another gradient is not held back";
      EXPECT_EQ(free, std::vector<float>(10, 2));
      EXPECT_EQ(exchange.stats().pieces, 1U);
      me.barrier().await();  // on no rank
      gate.open();
      EXPECT_TRUE(exchange.await(0));
      EXPECT_EQ(held, std::vector<float>(10, 6));
    });
  }
}

// An empty gradient's memory gets the result: not before the trainer has used the last one.
TEST(ExchangeStreams, AnEmptyGradientWaitsForTheStreamOfItsLastAwait) {
  in_virtual_time(2, {}, [](Communicator& me) {
    const gpu::Device device = gpu::open("host");
    const gpu::Stream stream(device);
    std::vector<float> gradient(10, 1);
    std::vector<float> used;
    GradientExchange exchange(me, {{"w", span_of(gradient)}}, {.weights = Weights::kOnes});
    exchange.begin_step(1);
    exchange.ready(0, stream);
    exchange.end_backward();
    EXPECT_TRUE(exchange.await(0, stream));
    const bool is_empty = me.rank() == 1;
    stream.launch_host([] {}, is_empty ? 7ms : 0ms);
    stream.launch_host([&] { used = gradient; });
    exchange.begin_step(is_empty ? 0 : 1);
    if (!is_empty) {
      stream.launch_host([&] { gradient.assign(10, 5); });
      exchange.ready(0, stream);
    }
    exchange.end_backward();
    EXPECT_EQ(elapsed(), 0ms);
    EXPECT_TRUE(exchange.await(0, stream));
    EXPECT_EQ(elapsed(), 7ms);
    stream.sync();
    EXPECT_EQ(used, std::vector<float>(10, 2));
    EXPECT_EQ(gradient, std::vector<float>(10, 5));
  });
}

// The copy back from the slot takes 3 ms: await() has the stream wait for it, not the caller.
TEST(ExchangeStreams, AwaitMakesTheStreamWaitForWhatTheDeviceHasLeftToDo) {
  in_virtual_time(2, {}, [](Communicator& me) {
    const gpu::Device device = support::open_far({.h2d_bandwidth = 1e6, .d2h_bandwidth = 1e6});
    const gpu::DeviceBuffer gradient(device, 3'000);
    const gpu::PinnedBuffer back(device, 3'000);
    const gpu::Stream stream(device);
    const gpu::Stream other(device);
    GradientExchange exchange(me, {{"w", gradient.span()}},
                              {.device = device, .weights = Weights::kOnes});
    exchange.begin_step(1);
    auto* const data = reinterpret_cast<float*>(support::FarBackend::reach(gradient.data()));
    stream.launch_host([&] { std::fill_n(data, 750, 1.0F); });
    exchange.ready(0, stream);
    exchange.end_backward();
    EXPECT_TRUE(exchange.await(0, stream));
    EXPECT_EQ(elapsed(), 3ms) << "to the slot";
    std::atomic<float> seen = 0;
    stream.launch_host([&] { seen = data[749]; });
    stream.sync();
    EXPECT_EQ(elapsed(), 6ms) << "and back";
    EXPECT_EQ(seen, 2);

    exchange.begin_step(1);
    exchange.ready(0, stream);
    exchange.end_backward();
    EXPECT_TRUE(exchange.await(0)) << "without a stream the caller waits for it";
    EXPECT_EQ(elapsed(), 12ms);
    EXPECT_EQ(data[749], 4);
  });
}

/// Clips to [-1, 1].
GradientLayer clip() {
  return {.before = [](std::size_t, const Gradient& from, const Gradient&,
                       const gpu::StreamRef& stream) {
    stream.launch_host([data = reinterpret_cast<float*>(from.data.data()), count = from.count()] {
      for (std::uint64_t i = 0; i < count; ++i) data[i] = std::clamp(data[i], -1.0F, 1.0F);
    });
  }};
}

/// Exchanges bf16 in place of fp32, in `memory`, by gradient.
GradientLayer to_bfloat16(std::vector<std::vector<gpu::BFloat16>>& memory) {
  return {
      .declare =
          [&](std::size_t index, const Gradient& from) {
            memory.resize(std::max(memory.size(), index + 1));
            memory[index].resize(from.count());
            return Gradient{from.name, gpu::DeviceSpan(memory[index].data(), 2 * from.count()),
                            DType::kBFloat16};
          },
      .before =
          [](std::size_t, const Gradient& from, const Gradient& to, const gpu::StreamRef& stream) {
            stream.launch_host([from, to] {
              const auto* const wide = reinterpret_cast<const float*>(from.data.data());
              auto* const narrow = reinterpret_cast<gpu::BFloat16*>(to.data.data());
              for (std::uint64_t i = 0; i < from.count(); ++i) {
                narrow[i].bits =
                    static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(wide[i]) >> 16);
              }
            });
          },
      .after =
          [](std::size_t, const Gradient& from, const Gradient& to, const gpu::StreamRef& stream) {
            stream.launch_host([from, to] {
              auto* const wide = reinterpret_cast<float*>(from.data.data());
              const auto* const narrow = reinterpret_cast<const gpu::BFloat16*>(to.data.data());
              for (std::uint64_t i = 0; i < from.count(); ++i) {
                wide[i] = std::bit_cast<float>(std::uint32_t{narrow[i].bits} << 16);
              }
            });
          }};
}

TEST(ExchangeStreams, LayersStackAndAreUndoneInReverse) {
  for (const support::RankPlace& place : support::rank_places()) {
    place.run(2, {}, [](Communicator& me) {
      const gpu::Device device = gpu::open("host");
      const gpu::Stream stream(device);
      std::vector<float> a(10);
      std::vector<float> b(3);
      std::vector<std::vector<gpu::BFloat16>> small(2);
      GradientExchange exchange(
          me, {{"a", span_of(a)}, {"b", span_of(b)}},
          {.weights = Weights::kOnes, .layers = {clip(), to_bfloat16(small)}});
      for (int step = 0; step < 3; ++step) {
        exchange.begin_step(1);
        stream.launch_host([&] {
          a.assign(10, me.rank() == 0 ? 7.0F : 0.25F);
          b.assign(3, 0.5F);
        });
        exchange.ready(0, stream);
        if (me.rank() == 1) exchange.ready(1, stream);
        exchange.end_backward();
        exchange.await_all(stream);
        stream.sync();
        EXPECT_EQ(a, std::vector<float>(10, 1.25F)) << "7 was clipped";
        EXPECT_EQ(b, std::vector<float>(3, 0.5F)) << "rank 0's is empty";
        EXPECT_EQ(exchange.stats().bytes, static_cast<std::uint64_t>(step + 1) * 26);
      }
      EXPECT_THROW(exchange.await(0), std::logic_error);
      EXPECT_THROW(exchange.await_all(), std::logic_error);
      exchange.begin_step(1);
      EXPECT_THROW(exchange.ready(0), std::logic_error);
      exchange.end_backward();
      exchange.await_all(stream);
    });
  }
}

}  // namespace exchange_streams_test
}  // namespace leat::comm
