// Bad input of one rank: an error at once, on the caller, after which the exchange still works.
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/gpu/device.h"
#include "tests/comm/support/ranks.h"

namespace leat::comm {
namespace exchange_bad_input_test {

using Gradients = std::vector<Gradient>;

/// On the one rank of a world.
void alone(const support::RankBody& body) {
  for (const support::RankPlace& place : support::rank_places()) place.run(1, {}, body);
}

template <class E>
void expect_refused(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown: " << part;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ExchangeBadInput, OptionsOutOfRangeAreRefused) {
  alone([](Communicator& me) {
    const auto expect = [&](const ExchangeOptions& options, const std::string& part) {
      expect_refused<std::invalid_argument>([&] { GradientExchange(me, {}, options); }, part);
    };
    expect({.partition_bytes = 0}, "partition_bytes is 0");
    expect({.credit_bytes = 0}, "credit_bytes is 0");
    expect({.policy = Policy::kBucketed, .bucket_bytes = {}}, "bucket_bytes is empty");
    expect({.policy = Policy::kBucketed, .bucket_bytes = {1, 0}}, "limit of bucket_bytes is 0");
    const GradientExchange fine(me, {}, {.bucket_bytes = {}});  // not used
  });
}

TEST(ExchangeBadInput, GradientsThatCannotBeSummedAreRefused) {
  alone([](Communicator& me) {
    float data[2] = {};
    const auto expect = [&](const Gradient& one, const std::string& part) {
      const Gradients all = {{"fine", gpu::DeviceSpan(data, 8)}, one};
      expect_refused<std::invalid_argument>([&] { GradientExchange(me, all); }, part);
    };
    expect({"", gpu::DeviceSpan(data, 8)}, "gradient 1 has no name");
    expect({"odd", gpu::DeviceSpan(data, 7)}, "\"odd\" has 7 bytes");
    expect({"mask", gpu::DeviceSpan(data, 8), DType::kBool}, "is of bool, which cannot be summed");
    expect({"counts", gpu::DeviceSpan(data, 8), DType::kInt32}, "there is no mean");
    GradientExchange exchange(me, {});
    const Gradients odd = {{"odd", gpu::DeviceSpan(data, 7)}};
    expect_refused<std::invalid_argument>([&] { exchange.broadcast(odd, 0); }, "7 bytes");
    const Gradients one = {{"one", gpu::DeviceSpan(data, 8)}};
    expect_refused<std::invalid_argument>([&] { exchange.broadcast(one, 1); }, "rank 1");
    exchange.broadcast(one, 0);
  });
}

TEST(ExchangeBadInput, CallsAtTheWrongTimeAreRefusedAndChangeNothing) {
  alone([](Communicator& me) {
    float data[2] = {1, 2};
    GradientExchange exchange(
        me, {{"a", gpu::DeviceSpan(&data[0], 4)}, {"b", gpu::DeviceSpan(&data[1], 4)}});
    const auto refused = [](const std::function<void()>& call, const std::string& part) {
      expect_refused<std::logic_error>(call, part);
    };
    const auto ready = [&](std::size_t i) { return [&exchange, i] { exchange.ready(i); }; };
    const auto await = [&](std::size_t i) { return [&exchange, i] { exchange.await(i); }; };
    const auto end = [&] { exchange.end_backward(); };
    EXPECT_FALSE(exchange.await(0)) << "at once before the first step";
    refused(ready(0), "outside a backward");
    refused(end, "no backward has begun");
    expect_refused<std::invalid_argument>([&] { exchange.begin_step(~std::uint64_t{0}); }, "2^48");
    exchange.begin_step(1);
    refused([&] { exchange.begin_step(1); }, "has not ended");
    refused(await(0), "it is not ready in step 1");
    refused(ready(2), "there are 2 gradients");
    refused(await(2), "there are 2 gradients");
    exchange.ready(0);
    refused(ready(0), "ready in step 1 already");
    EXPECT_TRUE(exchange.await(0)) << "in the backward, of a gradient that is ready";
    refused(ready(0), "ready in step 1 already");
    exchange.end_backward();
    refused(end, "no backward has begun");
    refused(ready(1), "outside a backward");

    exchange.begin_step(1);  // b was not awaited
    exchange.ready(0);
    refused(ready(1), "result of step 1 was not awaited");
    refused(end, "result of gradient 1 (\"b\") of step 1 was not awaited");
    EXPECT_FALSE(exchange.await(1)) << "it was empty";
    exchange.ready(1);
    exchange.end_backward();
    exchange.await_all();

    exchange.begin_step(0);
    refused(ready(0), "this rank has no samples in step 3");
    exchange.end_backward();  // ended already
    EXPECT_FALSE(exchange.await(0));
    EXPECT_FALSE(exchange.await(1));
    EXPECT_EQ(exchange.stats().steps, 3U);
    EXPECT_EQ(exchange.size(), 2U);
    EXPECT_EQ(data[0], 1);
    EXPECT_EQ(data[1], 2);
  });
}

// A step without samples, begun before the last results were awaited, ends with end_backward().
TEST(ExchangeBadInput, AStepWithoutSamplesWaitsForTheAwaitsOfTheLast) {
  alone([](Communicator& me) {
    float data = 3;
    GradientExchange exchange(me, {{"a", gpu::DeviceSpan(&data, 4)}});
    exchange.begin_step(1);
    exchange.ready(0);
    exchange.end_backward();
    exchange.begin_step(0);
    EXPECT_THROW(exchange.end_backward(), std::logic_error);
    EXPECT_TRUE(exchange.await(0));
    exchange.end_backward();
    EXPECT_FALSE(exchange.await(0));
  });
}

TEST(ExchangeBadInput, EveryCallInADeadWorldSaysSoAtOnce) {
  alone([](Communicator& me) {
    float data = 3;
    GradientExchange exchange(me, {{"a", gpu::DeviceSpan(&data, 4)}});
    exchange.begin_step(1);
    me.abort("enough");
    const Gradients none;
    const std::function<void()> calls[] = {
        [&] { exchange.begin_step(1); },      [&] { exchange.ready(0); },
        [&] { exchange.end_backward(); },     [&] { exchange.await(0); },
        [&] { exchange.broadcast(none, 0); }, [&] { GradientExchange(me, {}); }};
    for (const auto& call : calls) expect_refused<CommError>(call, "enough");
    EXPECT_EQ(exchange.stats().steps, 0U);
  });
}

}  // namespace exchange_bad_input_test
}  // namespace leat::comm
