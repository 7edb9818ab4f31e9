// The file that bench_comm_step reads.
#include <gtest/gtest.h>

#include <chrono>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/comm/step.h"
#include "tests/support/texts.h"

namespace bench {
namespace {

using namespace std::chrono_literals;
using leat::comm::Policy;

TEST(CommInstance, EveryFieldIsRead) {
  std::vector<std::string> ignored;
  const StepInstance instance = parse_instance(
      R"({"ranks": [{"b": [1, 2], "f": [3, 4]}, {"b": [5, 6.6], "f": [7e3, 0]}], "bytes": [8, 9e0],
          "alpha": 10, "bandwidth": 1.25e9, "delta": 11, "partition_bytes": 12, "credit_bytes": 13,
          "policy": "bucketed", "synchronous": true, "bucket_bytes": [14, 15], "note": "x"})",
      "file", &ignored);
  ASSERT_EQ(instance.ranks.size(), 2U);
  EXPECT_EQ(instance.ranks[0].backward, (std::vector<leat::Duration>{1ns, 2ns}));
  EXPECT_EQ(instance.ranks[0].forward, (std::vector<leat::Duration>{3ns, 4ns}));
  EXPECT_EQ(instance.ranks[1].backward, (std::vector<leat::Duration>{5ns, 7ns}));
  EXPECT_EQ(instance.ranks[1].forward, (std::vector<leat::Duration>{7us, 0ns}));
  EXPECT_EQ(instance.bytes, (std::vector<std::size_t>{8, 9}));
  EXPECT_EQ(instance.alpha, 10ns);
  EXPECT_EQ(instance.bandwidth, 1.25e9);
  EXPECT_EQ(instance.delta, 11ns);
  EXPECT_EQ(instance.options.partition_bytes, 12U);
  EXPECT_EQ(instance.options.credit_bytes, 13U);
  EXPECT_EQ(instance.options.policy, Policy::kBucketed);
  EXPECT_TRUE(instance.options.synchronous);
  EXPECT_EQ(instance.options.bucket_bytes, (std::vector<std::size_t>{14, 15}));
  EXPECT_EQ(ignored, std::vector<std::string>{"note"});
}

TEST(CommInstance, WhatIsMissingIsZeroOrTheExchangesDefault) {
  const StepInstance instance =
      parse_instance(R"({"ranks": [{"b": [1], "f": [2]}], "bytes": [4], "bandwidth": 1})", "file");
  EXPECT_EQ(instance.alpha, 0ns);
  EXPECT_EQ(instance.delta, 0ns);
  const leat::comm::ExchangeOptions defaults;
  EXPECT_EQ(instance.options.policy, defaults.policy);
  EXPECT_EQ(instance.options.partition_bytes, defaults.partition_bytes);
  EXPECT_EQ(instance.options.credit_bytes, defaults.credit_bytes);
  EXPECT_EQ(instance.options.bucket_bytes, defaults.bucket_bytes);
}

TEST(CommInstance, ServersAreThoseOfModeServer) {
  const auto servers = [](const std::string& fields) {
    std::vector<std::string> ignored;
    const StepInstance instance = parse_instance(
        R"({"ranks": [{"b": [1], "f": [2]}], "bytes": [4], "bandwidth": 1)" + fields + "}", "file",
        &ignored);
    EXPECT_EQ(ignored, std::vector<std::string>{});
    return instance.servers;
  };
  EXPECT_EQ(servers(""), 0);
  EXPECT_EQ(servers(R"(, "mode": "exchange")"), 0);
  EXPECT_EQ(servers(R"(, "mode": "server")"), 1);
  EXPECT_EQ(servers(R"(, "mode": "server", "servers": 3, "policy": "fifo")"), 3);
}

// Replaces `before` in a good instance; expects an error with the file's name and `parts`.
void expect_refused(std::string_view before, std::string_view after,
                    std::initializer_list<std::string_view> parts) {
  std::string text =
      R"({"ranks": [{"b": [1, 2], "f": [3, 4]}], "bytes": [8, 16], "alpha": 5, "bandwidth": 1e9,
          "partition_bytes": 4, "credit_bytes": 4, "policy": "fifo", "synchronous": false})";
  ASSERT_NO_THROW((void)parse_instance(text, "step.json"));
  text.replace(text.find(before), before.size(), after);
  SCOPED_TRACE(text);
  try {
    (void)parse_instance(text, "step.json");
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& error) {
    leat::support::expect_begins(error.what(), "step.json: ");
    leat::support::expect_contains(error.what(), parts);
  }
}

TEST(CommInstance, WhatCannotBeIsToldWithItsPlace) {
  expect_refused("{\"ranks\"", "[", {"not JSON"});
  expect_refused("\"ranks\"", "\"rank\"", {"\"ranks\" is missing"});
  expect_refused("\"bandwidth\"", "\"bandwith\"", {"\"bandwidth\" is missing"});
  expect_refused("\"b\": ", "\"c\": ", {"ranks[0]", "\"b\" is missing"});
  expect_refused("[{\"b\": [1, 2], \"f\": [3, 4]}]", "[]", {"ranks", "at least one"});
  expect_refused("[{\"b\": [1, 2], \"f\": [3, 4]}]", "[7]", {"ranks[0]", "object"});
  expect_refused("[1, 2]", "[1]", {"ranks[0].b", "1 layers", "has 2"});
  expect_refused("[1, 2]", "[1, -2]", {"ranks[0].b[1]", "nanoseconds", "-2"});
  expect_refused("[3, 4]", "[3, \"4\"]", {"ranks[0].f[1]", "\"4\""});
  expect_refused("[3, 4]", "[3, 1e300]", {"ranks[0].f[1]", "1e+300"});
  expect_refused("[8, 16]", "[]", {"bytes", "at least one"});
  expect_refused("[8, 16]", "[8, 1.5]", {"bytes[1]", "whole", "1.5"});
  expect_refused("[8, 16]", "7", {"bytes", "list"});
  expect_refused("1e9", "0", {"bandwidth", "bytes per second", "not 0"});
  expect_refused("\"alpha\": 5", "\"alpha\": null", {"alpha", "null"});
  expect_refused("\"partition_bytes\": 4", "\"partition_bytes\": 0", {"partition_bytes", "not 0"});
  expect_refused("\"credit_bytes\": 4", "\"credit_bytes\": 0", {"credit_bytes", "not 0"});
  expect_refused("\"fifo\"", "\"lifo\"", {"policy", "\"priority\"", "\"lifo\""});
  expect_refused("false", "0", {"synchronous", "true or false"});
  expect_refused("false", "false, \"bucket_bytes\": []", {"bucket_bytes", "at least one"});
  expect_refused("16]", "1000000000000]", {"10,000,000 pieces", "partition_bytes"});
  expect_refused("false", R"(false, "mode": "servers")", {"mode", "\"exchange\"", "\"servers\""});
  expect_refused("false", R"(false, "mode": 1)", {"mode", "\"server\", not 1"});
  expect_refused("false", R"(false, "mode": "server", "servers": 0)", {"servers", "not 0"});
  expect_refused("false", R"(false, "mode": "server", "servers": 1.5)", {"servers", "whole"});
  expect_refused("\"fifo\"", R"("bucketed", "mode": "server")", {"policy", "\"priority\""});
  expect_refused("16], \"alpha\": 5", "400000], \"alpha\": 1e15", {"30 years", "smaller"});
}

TEST(CommInstance, AFileThatIsNotThereIsToldByItsName) {
  try {
    (void)read_instance("/no/such/step.json");
    FAIL();
  } catch (const std::runtime_error& error) {
    leat::support::expect_contains(error.what(), {"/no/such/step.json", "cannot be read"});
  }
}

}  // namespace
}  // namespace bench
