// A consumer's wait for the copy of a batch is no work, whichever call waits, and in however many
// slices: on a modelled device in virtual time.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/interop/dlpack.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/host_model.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace copy_waits_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using SharedLease = std::shared_ptr<Lease>;

constexpr std::size_t kBatches = 200;
constexpr std::size_t kBatchSize = 4;
const support::NumbersOptions k200Batches = {.size = kBatches * kBatchSize, .pattern_bytes = 92};
const gpu::HostModel kByteANanosecond = {.h2d_bandwidth = 1e9};  // a copy takes 400 ns
constexpr Duration kSlice = 30ns;

// For sums of numbers that no double is exactly.
constexpr double kRounding = 1e-12;

// What the CPU takes part in; 0: only to read a tensor.
enum class Call : std::uint8_t { kExport, kExportAll, kTensors, kAwait, kSlices, kOneSlice, kOn };

void await_in_slices(Lease& batch) {
  while (!batch.await_until(from_now(kSlice))) {
  }
}

void perform(Call call, const NumbersFeed& feed, const SharedLease& batch) {
  switch (call) {
    case Call::kExport:
      for (const char* const name : {"number", "pattern"})
        static_cast<void>(dlpack::to_dlpack(batch, name));
      return;
    case Call::kExportAll: static_cast<void>(dlpack::all_to_dlpack(batch)); return;
    case Call::kTensors: static_cast<void>(batch->tensors()); return;
    case Call::kAwait: batch->await(); return;
    case Call::kSlices: await_in_slices(*batch); return;
    case Call::kOneSlice: EXPECT_FALSE(batch->await_until(from_now(kSlice))); return;
    case Call::kOn: batch->on(feed.stream); return;
  }
}

std::optional<Lease> next_in_slices(NumbersFeed& feed, bool on_stream) {
  std::optional<Lease> lease;
  ChannelStatus status = ChannelStatus::timed_out;
  while (status == ChannelStatus::timed_out) {
    status = on_stream ? feed.next_until(lease, from_now(kSlice), feed.stream)
                       : feed.next_until(lease, from_now(kSlice));
  }
  EXPECT_EQ(status == ChannelStatus::ok, lease.has_value());
  return lease;
}

void expect_consumer(const Stats& stats, double busy, double starved) {
  EXPECT_NEAR(stats.consumer.busy, busy, kRounding);
  EXPECT_NEAR(stats.consumer.starved, starved, kRounding);
}
void expect_near(double is, double should_be) { EXPECT_NEAR(is, should_be, should_be * kRounding); }

struct Loop {
  std::vector<Call> calls;
  std::size_t max_leases = 1;
  bool on_stream = false;
};
void PrintTo(const Loop& loop, std::ostream* out) {  // NOLINT: GoogleTest's name
  *out << loop.max_leases << (loop.on_stream ? " leases, on a stream; calls" : " leases; calls");
  for (const Call call : loop.calls) *out << " " << static_cast<int>(call);
}

class CopyWaits : public testing::TestWithParam<Loop> {};
std::vector<Loop> all_loops() {
  const std::vector<std::vector<Call>> uses = {
      {Call::kExport},
      {Call::kExportAll},
      {Call::kAwait},
      {Call::kAwait, Call::kAwait, Call::kExport},
      {Call::kSlices},
      {Call::kSlices, Call::kExport},
      {Call::kOneSlice, Call::kExport},
      {Call::kOneSlice, Call::kOneSlice, Call::kAwait},
      {Call::kAwait, Call::kOn},
      {Call::kOn, Call::kAwait},
      {Call::kOn, Call::kSlices},
      {Call::kOn, Call::kExport},
      {Call::kOneSlice, Call::kOn, Call::kExport},
  };
  std::vector<Loop> loops;
  for (const std::size_t leases : {1U, 3U}) {
    for (const std::vector<Call>& calls : uses) {
      for (const bool on_stream : {false, true}) loops.push_back({calls, leases, on_stream});
    }
    loops.push_back({{Call::kTensors}, leases, false});
    loops.push_back({{Call::kOneSlice, Call::kTensors}, leases, false});
  }
  return loops;
}
INSTANTIATE_TEST_SUITE_P(Loops, CopyWaits, testing::ValuesIn(all_loops()));

TEST_P(CopyWaits, AreStarvedTimeWhicheverCallWaits) {
  in_virtual_time([] {
    const Loop& loop = GetParam();
    NumbersFeed feed(k200Batches,
                     {.batch_size = kBatchSize, .max_leases = loop.max_leases, .sample_every = 2},
                     kByteANanosecond);
    feed.start(0);
    SharedLease held;
    for (;;) {
      if (loop.max_leases == 1) held.reset();
      std::optional<Lease> next = next_in_slices(feed, loop.on_stream);
      if (!next.has_value()) break;
      const auto batch = std::make_shared<Lease>(*std::move(next));
      for (const Call call : loop.calls) perform(call, feed, batch);
      held = batch;
      sleep_for(100ns);
    }
    held.reset();
    const Stats stats = feed.stats();
    EXPECT_EQ(stats.batches, kBatches);
    EXPECT_GE(stats.sampled_steps, 70U);
    expect_near(stats.t_step, 400e-9);
    expect_near(stats.t_c, 100e-9);
    expect_consumer(stats, 0.25, 0.75);
  });
}

// The loop of a Python program. Its name `batch` is assigned when the next batch is there, so the
// step on a batch ends when the next one is asked for, and the batch is released after that.
TEST(CopyWaitsOf, ALoopThatHoldsItsTensorsWhileItAsksForTheNextBatch) {
  struct Case {
    Duration sample_read;
    double step;  // ns
  };
  for (const Case& one : {Case{300ns, 1200}, Case{0ns, 400}}) {  // the readers limit it, the link
    in_virtual_time([&] {
      support::NumbersOptions numbers = k200Batches;
      numbers.read_time = one.sample_read;
      NumbersFeed feed(numbers, {.batch_size = kBatchSize, .max_leases = 3}, kByteANanosecond);
      using Tensors = std::vector<dlpack::Exported<dlpack::DLManagedTensorVersioned>>;
      std::uint64_t expected = 0;
      feed.start(0);
      Tensors batch;
      while (std::optional<Lease> next = next_in_slices(feed, false)) {
        EXPECT_EQ(next->index(), expected++);
        await_in_slices(*next);  // on the CPU, `next` returns once the copy is done
        Tensors tensors;
        const auto shared = std::make_shared<Lease>(*std::move(next));
        for (const char* const name : {"number", "pattern"})
          tensors.push_back(dlpack::to_dlpack(shared, name));
        batch = std::move(tensors);  // releases the batch before
        sleep_for(250ns);
      }
      batch.clear();
      const Stats stats = feed.stats();
      EXPECT_EQ(stats.batches, kBatches);
      EXPECT_EQ(stats.sampled_steps, kBatches - 1);
      expect_near(stats.t_step, one.step * 1e-9);
      expect_near(stats.t_c, 250e-9);
      expect_consumer(stats, 250 / one.step, 1 - 250 / one.step);
    });
  }
}

// A loop that asks for a batch before it uses the one before: the wait is in the next one's step.
TEST(CopyWaitsOf, ABatchWhoseSuccessorWasAskedFor) {
  in_virtual_time([] {
    NumbersFeed feed(k200Batches, {.batch_size = kBatchSize, .max_leases = 3}, kByteANanosecond);
    feed.start(0);
    auto batch = std::make_shared<Lease>(*feed.next());
    while (std::optional<Lease> next = feed.next()) {
      if (next->index() < kBatches - 1) perform(Call::kOneSlice, feed, batch);
      perform(Call::kExport, feed, batch);
      sleep_for(100ns);
      batch = std::make_shared<Lease>(*std::move(next));
    }
    batch.reset();
    const Stats stats = feed.stats();
    EXPECT_EQ(stats.sampled_steps, kBatches - 1);
    constexpr double kSteps = kBatches - 1;  // the first waits for 400 ns, the others for 300
    expect_near(stats.t_step, (kSteps * 400 + 100) * 1e-9 / kSteps);
    expect_near(stats.t_c, 100e-9);
    const double busy = kSteps * 100 / (kSteps * 400 + 100);
    expect_consumer(stats, busy, 1 - busy);
  });
}

// Steps of the first batches take no time, those of the second ones 300 + 400 ns of waiting, and
// 100 ns of work. The first wait is 100 ns longer.
TEST(CopyWaitsOf, TwoBatchesThatAreUsedTogether) {
  in_virtual_time([] {
    NumbersFeed feed(k200Batches, {.batch_size = kBatchSize, .prefetch_depth = 3, .max_leases = 2},
                     kByteANanosecond);
    feed.start(0);
    while (std::optional<Lease> first = feed.next()) {
      std::optional<Lease> second = feed.next();
      first->await();
      second->await();
      sleep_for(100ns);
    }
    const Stats stats = feed.stats();
    EXPECT_EQ(stats.sampled_steps, kBatches - 1);
    const double pairs = kBatches / 2;
    expect_near(stats.t_step, (pairs * 800 + 100) * 1e-9 / (kBatches - 1));
    expect_near(stats.t_c, pairs * 100e-9 / (kBatches - 1));
    const double busy = pairs * 100 / (pairs * 800 + 100);
    expect_consumer(stats, busy, 1 - busy);
  });
}

// Where earlier batches were used on a stream, a batch may still be bound to one when the next is
// asked for, but not if the CPU has waited for it.
TEST(CopyWaitsOf, AnEpochOnTheCpuAfterOneOnAStream) {
  in_virtual_time([] {
    support::NumbersOptions numbers = k200Batches;
    numbers.read_time = 300ns;
    NumbersFeed feed(numbers, {.batch_size = kBatchSize, .max_leases = 3}, kByteANanosecond);
    for (Lease& batch : feed.epoch(0, feed.stream)) feed.launch_check(batch, 100ns);
    feed.stream.sync();
    feed.reset_stats();
    feed.start(1);
    SharedLease held;
    while (std::optional<Lease> next = next_in_slices(feed, false)) {
      held = std::make_shared<Lease>(*std::move(next));
      perform(Call::kExport, feed, held);
      sleep_for(250ns);
    }
    held.reset();
    const Stats stats = feed.stats();
    EXPECT_EQ(stats.sampled_steps, kBatches - 1);
    expect_near(stats.t_step, 1200e-9);
    expect_consumer(stats, 250.0 / 1200, 950.0 / 1200);
  });
}

}  // namespace copy_waits_test
}  // namespace leat::feeder
