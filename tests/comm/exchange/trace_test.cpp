// The trace of an exchange: exact in virtual time.
#include "leat/comm/trace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/csp/scheduler.h"
#include "tests/comm/support/ranks.h"

namespace leat::comm {
namespace exchange_trace_test {

using namespace std::chrono_literals;

/// A step of two gradients of two pieces each, of 14 us a piece.
std::string trace_of_a_step(std::size_t events) {
  const auto trace = std::make_shared<Trace>(events);
  OpenOptions options;
  options.link = {.bandwidth = 1e9, .alpha = 10us, .enabled = true};
  support::rank_places()[0].run(2, options, [&](Communicator& me) {
    std::vector<float> a(2'000);
    std::vector<float> b(2'000);
    GradientExchange exchange(
        me, {{"a", gpu::DeviceSpan(a.data(), 8'000)}, {"b", gpu::DeviceSpan(b.data(), 8'000)}},
        {.policy = Policy::kFifo, .partition_bytes = 4'000, .trace = trace});
    exchange.begin_step(1);
    exchange.ready(1);
    sleep_for(5us);
    exchange.ready(0);
    exchange.end_backward();
    exchange.await_all();
  });
  return trace->json();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(ExchangeTrace, HasARowForEachLinkAndArrowsFromReadyToAwait) {
  const std::string json = trace_of_a_step(1'000);
  for (const std::string rank : {"0", "1"}) {
    const auto expect = [&](const std::string& before, int track, const std::string& after) {
      const std::string line =
          before + "\"pid\":" + rank + ",\"tid\":" + std::to_string(track) + after;
      EXPECT_EQ(count(json, line), 1U) << line << " in " << json;
    };
    expect(R"("name":"thread_name",)", 2, R"(,"args":{"name":"link"})");
    const auto span = [&](const std::string& name, int track, const std::string& from,
                          const std::string& length, const std::string& args) {
      expect(R"({"ph":"X","name":")" + name + R"(","cat":"leat",)", track,
             ",\"ts\":" + from + ",\"dur\":" + length + ",\"args\":{" + args + "}}");
    };
    span("ready b", 1, "0.000", "0.000", R"("step":1)");
    span("ready a", 1, "5.000", "0.000", R"("step":1)");
    span("b", 2, "0.000", "14.000", R"("step":1,"piece":0)");
    span("b", 2, "14.000", "14.000", R"("step":1,"piece":1)");
    span("a", 2, "28.000", "14.000", R"("step":1,"piece":0)");
    span("a", 2, "42.000", "14.000", R"("step":1,"piece":1)");
    span("await a", 1, "5.000", "51.000", R"("step":1)");
    span("await b", 1, "56.000", "0.000", R"("step":1)");
  }
  for (const std::string phase : {"s", "t", "f"}) {
    EXPECT_EQ(count(json, "{\"ph\":\"" + phase + "\""), 4U) << phase;
  }
}

TEST(ExchangeTrace, RecordsNoMoreThanItWasMadeFor) {
  EXPECT_EQ(count(trace_of_a_step(3), R"({"ph":"X")"), 3U);
  EXPECT_EQ(count(trace_of_a_step(0), R"({"ph":"X")"), 0U);
}

}  // namespace exchange_trace_test
}  // namespace leat::comm
