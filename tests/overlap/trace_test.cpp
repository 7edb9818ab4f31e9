// The trace of a loop in virtual time: spans nest, arrows lead from each batch's read over its copy
// to the work on it, and every instant is that of the arithmetic.
#include "leat/feeder/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/error.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/numbers.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace trace_test {

using namespace std::chrono_literals;
using nlohmann::json;
using support::Numbers;

struct Span {
  double begin;
  double end;
  std::uint64_t batch;
};
using Track = std::pair<int, int>;

struct Parsed {
  std::map<Track, std::string> names;
  std::map<Track, std::vector<Span>> spans;
  std::map<std::uint64_t, std::vector<json>> arrows;  // by id, as written
  std::vector<json> counters;

  // Those of the track of that name.
  [[nodiscard]] const std::vector<Span>& of(const std::string& name) const {
    for (const auto& [track, is] : names) {
      if (is == name) return spans.at(track);
    }
    throw std::out_of_range("no track " + name);
  }
};

Parsed parse(const std::string& text) {
  Parsed parsed;
  const json trace = json::parse(text);
  for (const json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    if (phase == "M") {
      if (event.at("name") == "thread_name") {
        parsed.names[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
      }
    } else if (phase == "X") {
      const double begin = event.at("ts");
      parsed.spans[{event.at("pid"), event.at("tid")}].push_back(
          {begin, begin + event.at("dur").get<double>(), event.at("args").at("batch")});
    } else if (phase == "C") {
      parsed.counters.push_back(event);
    } else {
      parsed.arrows[event.at("id")].push_back(event);
    }
  }
  return parsed;
}

struct Loop {
  std::size_t devices = 1;
  std::size_t workers = 1;
  std::size_t max_leases = 1;
  TraceOptions trace = {};
  Delivery delivery = Delivery::kInOrder;
};

// Batches of 4 samples of 100 bytes: Tread 800 ns, Tx 400 ns, Tc 1000 ns.
std::string record(const Loop& loop, std::size_t batches) {
  std::string text;
  support::in_virtual_time([&] {
    TraceOptions options = loop.trace;
    options.batches = std::min(options.batches, batches);  // and none of the next epoch's
    const auto trace = std::make_shared<Trace>(options);
    const Numbers data(
        {.size = 4 * batches * loop.devices, .pattern_bytes = 92, .read_time = 200ns});
    std::vector<gpu::Device> devices;
    for (std::size_t i = 0; i < loop.devices; ++i) {
      devices.push_back(gpu::open_host({.h2d_bandwidth = 1e9}, static_cast<int>(i)));
    }
    Prefetcher prefetcher(data, devices,
                          {.batch_size = 4 * loop.devices,
                           .max_leases = loop.max_leases,
                           .workers = loop.workers,
                           .order = Order::kSequential,
                           .delivery = loop.delivery,
                           .trace = trace});
    TaskGroup group;
    for (std::size_t rank = 0; rank < loop.devices; ++rank) {
      group.go([&, rank] {
        const gpu::Stream stream(devices[rank]);
        std::vector<Lease> held;
        for (;;) {
          std::optional<Lease> batch = prefetcher.rank(rank).next();
          if (!batch.has_value()) break;
          batch->on(stream);
          stream.launch_host([] {}, 1000ns);
          held.push_back(*std::move(batch));
          if (held.size() == loop.max_leases) held.erase(held.begin());
        }
        held.clear();
        stream.sync();
      });
    }
    group.wait();
    text = trace->json();
  });
  return text;
}

void expect_to_nest(const Parsed& parsed) {
  for (const auto& [track, spans] : parsed.spans) {
    ASSERT_TRUE(parsed.names.contains(track));
    std::vector<Span> sorted = spans;
    std::ranges::sort(sorted, {}, &Span::begin);
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      EXPECT_LE(sorted[i - 1].end, sorted[i].begin + 1e-6)
          << parsed.names.at(track) << ", batches " << sorted[i - 1].batch << ", "
          << sorted[i].batch;
    }
  }
}

void expect_arrows(const Parsed& parsed, std::size_t batches) {
  EXPECT_EQ(parsed.arrows.size(), batches);
  for (const auto& [id, events] : parsed.arrows) {
    ASSERT_EQ(events.size(), 3U) << id;
    const char* const phases[] = {"s", "t", "f"};
    std::set<std::uint64_t> joined;  // batches that have a span at each end
    double before = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(events[i].at("ph"), phases[i]);
      const double at = events[i].at("ts");
      EXPECT_GE(at, before) << "arrows lead forward";
      before = at;
      std::set<std::uint64_t> here;
      for (const Span& one : parsed.spans.at({events[i].at("pid"), events[i].at("tid")})) {
        if (one.begin == at && (i == 0 || joined.contains(one.batch))) here.insert(one.batch);
      }
      joined = here;
    }
    EXPECT_EQ(joined.size(), 1U) << "an arrow hangs in the air, or joins different batches";
  }
}

TEST(Trace, EveryInstantIsThatOfTheArithmetic) {
  const Parsed parsed = parse(record({}, 10));
  expect_to_nest(parsed);
  expect_arrows(parsed, 10);
  const auto& reads = parsed.of("reader 0");
  const auto& copies = parsed.of("copies");
  const auto& uses = parsed.of("work on batches");
  ASSERT_EQ(reads.size(), 10U);
  ASSERT_EQ(copies.size(), 10U);
  ASSERT_EQ(uses.size(), 10U);
  for (std::size_t k = 0; k < 10; ++k) {  // Tc limits the loop
    EXPECT_EQ(copies[k].batch, k);
    EXPECT_NEAR(copies[k].end - copies[k].begin, 0.4, 1e-9);
    EXPECT_NEAR(uses[k].end, 1.2 + 1.0 * static_cast<double>(k + 1), 1e-9);
    EXPECT_NEAR(uses[k].end - uses[k].begin, 1, 1e-9);
  }
  EXPECT_NEAR(reads[0].begin, 0, 1e-9);
  EXPECT_NEAR(reads[0].end, 0.8, 1e-9);
  EXPECT_NEAR(copies[0].begin, 0.8, 1e-9);
  EXPECT_FALSE(parsed.counters.empty());
  for (const json& counter : parsed.counters) {
    EXPECT_LE(counter.at("args").at("ready").get<int>(), 2);
    EXPECT_GE(counter.at("args").at("filled").get<int>(), 0);
  }
}

// So that those of several processes can be told apart.
TEST(Trace, NamesTheRankOfTheWorld) {
  std::string text;
  support::in_virtual_time([&] {
    const auto trace = std::make_shared<Trace>();
    const Numbers data({.size = 40});
    Prefetcher prefetcher(data, gpu::open("host"),
                          {.batch_size = 10, .rank = 3, .world_size = 5, .trace = trace});
    for (Lease& batch : prefetcher.epoch(0)) batch.release();
    text = trace->json();
  });
  std::set<std::string> names;
  for (const auto& [track, name] : parse(text).names) names.insert(name);
  EXPECT_TRUE(names.contains("rank 3: copier waits for a device slot"));
}

TEST(Trace, NestsWithSeveralReadersDevicesAndLeases) {
  for (const Loop& loop : {Loop{.workers = 3}, Loop{.max_leases = 3}, Loop{.devices = 2},
                           Loop{.devices = 2, .workers = 4, .max_leases = 2}}) {
    const Parsed parsed = parse(record(loop, 20));
    expect_to_nest(parsed);
    expect_arrows(parsed, 20 * loop.devices);
  }
}

// Work on two streams, of which one is done earlier with a later batch.
TEST(Trace, NestsWhereBatchesAreReleasedInAnotherOrder) {
  std::string text;
  support::in_virtual_time([&] {
    const auto trace = std::make_shared<Trace>();
    const Numbers data({.size = 90});
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
    const gpu::Stream slow(device);
    const gpu::Stream fast(device);
    Prefetcher prefetcher(data, device, {.batch_size = 3, .max_leases = 2, .trace = trace});
    const Receiver<Lease> batches = prefetcher.receiver(0);
    for (int i = 0; i < 10; ++i) {
      Lease first = *batches.recv();
      Lease second = *batches.recv();
      second.on(fast);
      first.on(slow);
      slow.launch_host([] {}, 1000ns);
      second.release();
      Lease third = *batches.recv();
      third.on(fast);
      fast.launch_host([] {}, 500ns);
      first.release();
      third.release();
    }
    slow.sync();
    fast.sync();
    text = trace->json();
  });
  std::vector<Span> uses = parse(text).of("work on batches");
  ASSERT_EQ(uses.size(), 30U);
  std::ranges::sort(uses, {}, &Span::begin);
  double until = 0;
  for (const Span& one : uses) {
    EXPECT_TRUE(one.begin >= until - 1e-6 || one.end <= until + 1e-6)
        << "batch " << one.batch << " from " << one.begin << " to " << one.end << ", beside "
        << until;
    until = std::max(until, one.end);
  }
}

TEST(Trace, RecordsAsManyAsAskedForAfterThoseSkipped) {
  const Parsed parsed = parse(record({.trace = {.skip = 5, .batches = 3}}, 20));
  const auto& uses = parsed.of("work on batches");
  ASSERT_EQ(uses.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(uses[i].batch, 5 + i);
}

TEST(Trace, IsOfOnePrefetcher) {
  const Numbers data({.size = 8});
  const auto trace = std::make_shared<Trace>();
  const gpu::Device device = gpu::open("host");
  const Prefetcher first(data, device, {.batch_size = 4, .trace = trace});
  EXPECT_THROW(Prefetcher(data, device, {.batch_size = 4, .trace = trace}), std::invalid_argument);
}

TEST(Trace, IsNotUsedUpByAPrefetcherThatCouldNotBeMade) {
  const Numbers data({.size = 8});
  const auto trace = std::make_shared<Trace>();
  const gpu::Device device = gpu::open_host({.memory_bytes = 4096});
  EXPECT_THROW(Prefetcher(data, device, {.batch_size = 4, .prefetch_depth = 1000, .trace = trace}),
               OutOfMemory);
  EXPECT_NO_THROW(Prefetcher(data, device, {.batch_size = 4, .trace = trace}));
}

TEST(Trace, OfNothingIsATraceAllTheSame) {
  EXPECT_EQ(json::parse(Trace().json()).at("traceEvents").size(), 0U);
}

TEST(Trace, RefusesWhatCannotBe) {
  EXPECT_THROW(Trace({.batches = 0}), std::invalid_argument);
  EXPECT_THROW(Trace({.batches = 100'001}), std::invalid_argument);
  try {
    Trace().save("/no/such/folder/trace.json");
    ADD_FAILURE() << "it was written";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("/no/such/folder/trace.json"), std::string::npos);
  }
}

}  // namespace trace_test
}  // namespace leat::feeder
