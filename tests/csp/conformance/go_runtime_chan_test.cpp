// Go's runtime/chan_test.go, as far as it is about channels alone; go_runtime_select_test has the
// rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace go_runtime_chan_test {

using support::on_each_worker_count;
using support::rounds;
using support::run_each;
using support::until_idle;

/// Calls body(capacity) as the main fiber for each capacity that Go's TestChan takes.
template <class Body>
void run_each_capacity(const Body& body) {
  run_each([&] {
#if defined(LEAT_TSAN)
    constexpr int kStep = 11;
#else
    constexpr int kStep = 1;
#endif
    for (int capacity = 0; capacity < 200; capacity += capacity < 3 ? 1 : kStep) {
      SCOPED_TRACE(testing::Message() << "capacity " << capacity);
      body(capacity);
    }
  });
}

TEST(GoRuntimeTestChan, CloseEndsAReceiveThatWaits) {
  run_each_capacity([](int capacity) {
    constexpr int kReceivers = 20;
    const Channel<int> c(capacity);
    std::atomic<int> ended = 0;
    TaskGroup group;
    for (int i = 0; i < kReceivers; ++i) {
      group.go([&] {
        EXPECT_EQ(c.recv(), std::nullopt);
        ++ended;
      });
    }
    until_idle();
    EXPECT_EQ(ended, 0);
    c.close();
    group.wait();
    EXPECT_EQ(ended, kReceivers);
  });
}

TEST(GoRuntimeTestChan, FourSendersAndFourReceiversLoseDuplicateAndReorderNothing) {
  run_each_capacity([](int capacity) {
    constexpr int kPairs = 4;
    constexpr int kEach = std::min(250, rounds(1000));
    const Channel<int> c(capacity);
    std::vector<std::atomic<int>> seen(kPairs * kEach);
    TaskGroup group;
    for (int pair = 0; pair < kPairs; ++pair) {
      group.go([=] {
        for (int i = 0; i < kEach; ++i) c.send(pair * kEach + i);
      });
      group.go([&] {
        std::array<int, kPairs> last;
        last.fill(-1);
        for (int i = 0; i < kEach; ++i) {
          const int value = c.recv().value();
          ++seen.at(static_cast<std::size_t>(value));
          int& previous = last.at(static_cast<std::size_t>(value / kEach));
          EXPECT_LT(previous, value);  // each sender's values arrive in its order
          previous = value;
        }
      });
    }
    group.wait();
    for (const std::atomic<int>& count : seen) ASSERT_EQ(count, 1);
  });
}

// TestNonblockRecvRace: the value or the end is there at every instant.
TEST(GoRuntimeNonblockRecvRace, APollBesideACloseFindsTheValueOrTheEnd) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [] {
          for (int i = 0; i < rounds(10'000); ++i) {
            const Channel<int> c(1);
            c.send(1);
            TaskGroup group;
            group.go([&] { EXPECT_EQ(select(on_recv(c), otherwise()), 0); });
            if (i % 2 == 0) yield();
            c.close();
            static_cast<void>(c.recv());
            group.wait();
            if (testing::Test::HasFailure()) break;
          }
        },
        options);
  });
}

// TestChanSendInterface: what converts to the element type is sent as such, by each way.
TEST(GoRuntimeChanSendInterface, ADerivedValueIsSentAsItsBase) {
  struct Base {
    Base() = default;
    Base(const Base&) = delete;
    Base& operator=(const Base&) = delete;
    virtual ~Base() = default;
    [[nodiscard]] virtual std::string name() const { return "base"; }
  };
  struct Derived final : Base {
    [[nodiscard]] std::string name() const override { return "derived"; }
  };
  run_each([] {
    const Channel<std::shared_ptr<const Base>> c(4);
    const auto derived = std::make_shared<Derived>();
    c.send(derived);
    c.send(std::make_unique<Derived>());
    EXPECT_EQ(select(on_send(c, derived), otherwise()), 0);
    EXPECT_EQ(select(on_send(Channel<int>(), 1), on_send(c, std::make_unique<Derived>())), 1);
    EXPECT_EQ(select(on_send(c, std::make_shared<Derived>()), otherwise()), 1);
    c.close();
    int count = 0;
    for (const auto& value : c) {
      EXPECT_EQ(value->name(), "derived");
      ++count;
    }
    EXPECT_EQ(count, 4);
  });
}

/// Uses `depth` KiB of stack, and what it leaves there differs from call to call.
int use_stack(int depth, int seed) {
  std::array<volatile int, 256> frame;
  for (volatile int& word : frame) word = seed++;
  const int below = depth > 1 ? use_stack(depth - 1, seed) : 0;
  return below + frame[static_cast<std::size_t>(depth)] - frame[0];
}

// TestShrinkStackDuringBlockedSend. Stacks do not move here; but a value that is sent from a frame
// is read by another worker while its fiber is parked, and the frame is used for other things as
// soon as it is not.
TEST(GoRuntimeShrinkStackDuringBlockedSend, AValueInAParkedFramesIsTakenBeforeTheFrameGoesOn) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [] {
          for (const int capacity : {0, 1, 3}) {
            const Channel<std::array<int, 64>> c(capacity);
            const Channel<bool> done(0);
            go([=] {
              for (int i = 0; i < rounds(1000); ++i) {
                std::array<int, 64> value;
                value.fill(i);
                c.send(std::move(value));
                value.fill(-1);
                use_stack(20, i);
              }
              done.send(true);
            });
            for (int i = 0; i < rounds(1000); ++i) {
              const auto value = c.recv().value();
              for (const int word : value) ASSERT_EQ(word, i);
              use_stack(20, ~i);
              if (i % 3 == 0) yield();  // it waits in its send again
            }
            EXPECT_EQ(done.recv(), true);
          }
        },
        options);
  });
}

// TestSelectStackAdjust: likewise for the frames that a select receives into, several at a time.
TEST(GoRuntimeSelectStackAdjust, ASelectReceivesIntoItsFrameWhileItsFiberIsParked) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [] {
          const Channel<std::array<int, 64>> c(0);
          const Channel<std::array<int, 64>> d(0);
          TaskGroup group;
          group.go([&] {
            for (int i = 0; i < rounds(1000); ++i) {
              const std::array<int, 3> around = {i, i + 1, i + 2};
              const auto check = [&](int from, const auto& value) {
                for (const int word : value.value()) ASSERT_EQ(word, from + i);
              };
              select(on_recv(c, [&](auto value) { check(0, value); }),
                     on_recv(d, [&](auto value) { check(1'000'000, value); }));
              EXPECT_EQ(around, (std::array<int, 3>{i, i + 1, i + 2}));
              use_stack(20, i);
            }
          });
          for (int i = 0; i < rounds(1000); ++i) {
            std::array<int, 64> value;
            value.fill(i % 2 == 0 ? i : 1'000'000 + i);
            (i % 2 == 0 ? c : d).send(std::move(value));
            value.fill(-1);
            if (i % 3 == 0) yield();
          }
          group.wait();
        },
        options);
  });
}

// TestNoShrinkStackWhileParking has no counterpart: stacks are not moved.

}  // namespace go_runtime_chan_test
}  // namespace leat
