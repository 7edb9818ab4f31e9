// The proof that no batch is overwritten early: the lease protocol under every schedule with few
// preemptions, for 2 and 3 slots, two streams of the consumer's, cancellation and failures at every
// step.
//
// What a schedule is judged by: each kernel finds its batch whole when it starts and when it ends;
// every batch comes once and in order; the loop ends, by the data's end, by the failure or by the
// cancellation, and nothing hangs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/base/sanitizers.h"
#include "leat/csp/error.h"
#include "leat/csp/explore.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/error.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {
namespace lease_explore_test {

// Samples of one number.
class Numbers final : public Dataset {
 public:
  Numbers(std::uint64_t size, bool is_announced) : size_(size), is_announced_(is_announced) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "numbers"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  void read(std::uint64_t index, Sample& out) const override {
    out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(index);
  }
  [[nodiscard]] Blocking blocking() const noexcept override {
    return is_announced_ ? Blocking::kSeldom : Blocking::kNever;
  }
  std::uint64_t announce(std::uint64_t /*index*/, std::uint64_t /*seed*/,
                         std::uint64_t /*epoch*/) const noexcept override {
    return 1;
  }

 private:
  std::uint64_t size_;
  bool is_announced_;
  std::vector<Field> fields_{{"number", DType::kInt64, {}}};
};

constexpr const char* kOverwritten = "a batch was overwritten while it was in use";

// A test has to end within a fifth of its time limit on a slow machine. That is some 10,000
// schedules, of those with a preemption; under a sanitizer, a fifth of these. kMostSchedules are
// more than any loop has that is explored whole.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kMostSchedules = 2'000;
constexpr std::uint64_t kPartOfSchedules = 2'000;
constexpr bool kAll = false;
#else
constexpr std::uint64_t kMostSchedules = 100'000;
constexpr std::uint64_t kPartOfSchedules = 10'000;
constexpr bool kAll = true;
#endif

struct Loop {
  std::size_t depth = 2;
  std::size_t max_leases = 1;
  std::uint64_t batches = 3;
  // Takes batches from a receiver, or tries next_until() first, and its copy's await_until(), which
  // may time out at any step; instead of the loop over epoch().
  enum class By : std::uint8_t { kEpoch, kReceiver, kTimeOut } by = By::kEpoch;
  gpu::HostFaults faults = {};
  // Readers announce their samples, and take slots before their turn.
  bool is_announced = false;
  std::size_t workers = 1;
};

// One epoch, in which every batch is used on two streams. Throws for a batch that is not what it
// should be. `wrong` outlives the kernels, which a failure may leave behind.
void run_loop(const Loop& loop, bool& wrong) {
  const Numbers data(loop.batches, loop.is_announced);
  const gpu::Device device = gpu::open_host({.faults = loop.faults});
  const gpu::Stream first(device);
  const gpu::Stream second(device);
  std::uint64_t next = 0;
  {
    Prefetcher feed(data, device,
                    {.batch_size = 1,
                     .prefetch_depth = loop.depth,
                     .max_leases = loop.max_leases,
                     .workers = loop.workers,
                     .order = Order::kSequential,
                     .sample_every = 0});
    std::optional<Lease> held;
    const auto step = [&](Lease& batch) {
      wrong = wrong || batch.index() != next++;
      for (const gpu::Stream* stream : {&first, &second}) {
        batch.on(*stream);
        stream->launch_host([&wrong, number = batch["number"].data<std::int64_t>(),
                             want = static_cast<std::int64_t>(batch.index())] {
          wrong = wrong || *number != want;
          yield();  // meanwhile others may run
          wrong = wrong || *number != want;
        });
      }
      if (loop.max_leases > 1) held = std::move(batch);
    };
    switch (loop.by) {
      case Loop::By::kEpoch:
        for (Lease& batch : feed.epoch(0)) step(batch);
        break;
      case Loop::By::kReceiver:
        for (Lease& batch : feed.receiver(0, first)) step(batch);
        break;
      case Loop::By::kTimeOut:
        feed.start(0);
        for (;;) {
          std::optional<Lease> batch;
          ChannelStatus status = feed.next_until(batch, TimePoint::min());
          if (status == ChannelStatus::timed_out) {
            status = feed.next_until(batch, TimePoint::max());
          }
          if (status == ChannelStatus::closed) break;
          static_cast<void>(batch->await_until(TimePoint::min()));
          step(*batch);
        }
        break;
    }
    held.reset();
  }
  first.sync();
  second.sync();
  if (next != loop.batches) throw std::logic_error("a batch is missing");
}

void run_and_judge(const Loop& loop) {
  bool wrong = false;
  try {
    run_loop(loop, wrong);
  } catch (...) {
    if (wrong) throw std::logic_error(kOverwritten);
    throw;
  }
  if (wrong) throw std::logic_error(kOverwritten);
}

// One reader, and two that take slots from each other, with one preemption and at random.
TEST(ExploreAnnounce, AnAnnouncementChangesNoResult) {
  for (const std::size_t workers : {1U, 2U}) {
    const Loop loop{.depth = 1, .batches = 4, .is_announced = true, .workers = workers};
    for (const bool is_random : {false, true}) {
      const ExploreResult result =
          explore([&] { run_and_judge(loop); }, {.schedules = kPartOfSchedules / 30,
                                                 .exhaustive = !is_random,
                                                 .preemptions = 1,
                                                 .workers = 2});
      EXPECT_TRUE(result) << result.failure << "\n" << result.schedule;
    }
  }
}

bool is_device_failure(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const gpu::GpuError&) {
    return true;
  } catch (const Error&) {  // "the prefetcher has stopped because of"
    return true;
  } catch (...) {
    return false;
  }
}

class ExploreLease : public testing::TestWithParam<Loop> {};
std::string loop_title(const testing::TestParamInfo<Loop>& info) {
  return "Depth" + std::to_string(info.param.depth) + "Leases" +
         std::to_string(info.param.max_leases) +
         std::array{"", "Received", "TimedOut"}[static_cast<std::size_t>(info.param.by)];
}
// 1, 2 and 3 slots; each is used again at least once.
INSTANTIATE_TEST_SUITE_P(Loops, ExploreLease,
                         testing::Values(Loop{.depth = 1, .batches = 2}, Loop{.depth = 2},
                                         Loop{.depth = 2, .max_leases = 2, .batches = 4},
                                         Loop{.depth = 1, .batches = 2, .by = Loop::By::kReceiver},
                                         Loop{.depth = 1, .batches = 2, .by = Loop::By::kTimeOut}),
                         loop_title);

TEST_P(ExploreLease, NoBatchIsOverwrittenUnderAnyScheduleWithoutPreemption) {
  const ExploreResult result =
      explore([] { run_and_judge(GetParam()); },
              {.schedules = 1'000'000, .exhaustive = true, .preemptions = 0, .workers = 2});
  EXPECT_TRUE(result) << result.failure << "\n" << result.schedule;
  EXPECT_TRUE(result.complete);
}

// There are 20,000 to 30,000 of them, and more with a receiver: all for the smallest loop, a part
// for the others.
TEST_P(ExploreLease, NoBatchIsOverwrittenUnderSchedulesWithOnePreemption) {
  const bool wants_all = kAll && GetParam().depth == 1 && GetParam().by == Loop::By::kEpoch;
  const ExploreResult result = explore([] { run_and_judge(GetParam()); },
                                       {.schedules = wants_all ? kMostSchedules : kPartOfSchedules,
                                        .exhaustive = true,
                                        .preemptions = 1,
                                        .workers = 2});
  EXPECT_TRUE(result) << result.failure << "\n" << result.schedule;
  EXPECT_TRUE(result.complete || !wants_all) << result.schedules << " schedules are not all";
  EXPECT_GE(result.schedules, 2'000U);
}

TEST_P(ExploreLease, NoBatchIsOverwrittenUnderRandomSchedules) {
  const ExploreResult result =
      explore([] { run_and_judge(GetParam()); }, {.schedules = kMostSchedules / 50, .workers = 2});
  EXPECT_TRUE(result) << result.failure << "\n" << result.schedule;
}

// The n-th copy, kernel or operation of whatever kind fails, for each n there is: the loop ends
// with an error of the device. A receiver's loop has some 25 operations, and for each of them more
// schedules than there is time for.
TEST_P(ExploreLease, AFailureAtAnyOperationEndsTheLoopAndOverwritesNothing) {
  const std::uint64_t schedules =
      GetParam().by == Loop::By::kReceiver ? kPartOfSchedules / 25 : kMostSchedules / 20;
  for (std::uint64_t gpu::HostFaults::*const kind :
       {&gpu::HostFaults::copy, &gpu::HostFaults::kernel, &gpu::HostFaults::lost_at}) {
    bool fails = true;
    for (std::uint64_t n = 1; fails && n < 200; ++n) {
      Loop loop = GetParam();
      loop.faults.*kind = n;
      fails = false;
      const ExploreResult result = explore(
          [&] {
            try {
              run_and_judge(loop);
            } catch (const Error&) {
              fails = true;
              throw;
            }
          },
          {.schedules = schedules,
           .exhaustive = true,
           .preemptions = 0,
           .workers = 2,
           .expected = is_device_failure});
      EXPECT_TRUE(result) << n << ": " << result.failure << "\n" << result.schedule;
      EXPECT_TRUE(fails || n > loop.batches) << "the fault was not met";
    }
    EXPECT_FALSE(fails) << "more than 200 operations";
  }
}

// Somebody else cancels the loop's group, at any of its steps: which one, a preemption decides.
TEST_P(ExploreLease, ACancellationAtAnyStepEndsTheLoopAndOverwritesNothing) {
  const bool wants_all = kAll && GetParam().by == Loop::By::kEpoch;
  const ExploreResult result = explore(
      [] {
        bool wrong = false;
        {
          TaskGroup group;
          group.go([&] { run_loop(GetParam(), wrong); });
          yield();
          group.stop();
          try {
            group.wait();
          } catch (const std::logic_error&) {
            throw;
          } catch (const Error&) {  // the stages may hear of it before the loop does
          }
        }
        if (wrong) throw std::logic_error(kOverwritten);
      },
      {.schedules = wants_all ? kMostSchedules : kPartOfSchedules,
       .exhaustive = true,
       .preemptions = 1,
       .workers = 2});
  EXPECT_TRUE(result) << result.failure << "\n" << result.schedule;
  EXPECT_TRUE(result.complete || !wants_all) << result.schedules << " schedules are not all";
}

}  // namespace lease_explore_test
}  // namespace leat::feeder
