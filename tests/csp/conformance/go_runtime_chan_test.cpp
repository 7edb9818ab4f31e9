// Go's runtime/chan_test.go, as far as it is about channels alone; go_runtime_select_test has the
// rest.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/csp/wait_group.h"
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

TEST(GoRuntimeTestChan, ReceiveFromAnEmptyChannelWaits) {
  run_each_capacity([](int capacity) {
    const Channel<int> c(capacity);
    std::atomic<int> received = 0;
    TaskGroup group;
    group.go([&] {
      EXPECT_EQ(c.recv(), 0);
      ++received;
    });
    group.go([&] {
      for (const int value : c) {
        EXPECT_EQ(value, 0);
        ++received;
        break;
      }
    });
    until_idle();
    EXPECT_EQ(received, 0);
    EXPECT_EQ(select(on_recv(c), otherwise()), 1);
    c.send(0);
    c.send(0);
    EXPECT_EQ(c.size(), 0U);  // handed over, not buffered
    group.wait();
    EXPECT_EQ(received, 2);
  });
}

TEST(GoRuntimeTestChan, SendToAFullChannelWaits) {
  run_each_capacity([](int capacity) {
    const Channel<int> c(capacity);
    for (int i = 0; i < capacity; ++i) c.send(int{i});
    bool sent = false;
    TaskGroup group;
    group.go([&] {
      c.send(int{capacity});
      sent = true;
    });
    until_idle();
    EXPECT_FALSE(sent);
    EXPECT_EQ(select(on_send(c, 0), otherwise()), 1);
    EXPECT_EQ(c.size(), static_cast<std::size_t>(capacity));
    EXPECT_EQ(c.recv(), 0);
    group.wait();
    EXPECT_TRUE(sent);
    EXPECT_EQ(c.size(), static_cast<std::size_t>(capacity));
    for (int i = 1; i <= capacity; ++i) EXPECT_EQ(c.recv(), i);
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

TEST(GoRuntimeTestChan, AHundredNumbersArriveInOrder) {
  run_each_capacity([](int capacity) {
    for (const bool by_range : {false, true}) {
      const Channel<int> c(capacity);
      go([=] {
        for (int i = 0; i < 100; ++i) c.send(int{i});
        c.close();
      });
      int next = 0;
      if (by_range) {
        for (const int value : c) ASSERT_EQ(value, next++);
      } else {
        while (next < 100) ASSERT_EQ(c.recv(), next++);
      }
      EXPECT_EQ(next, 100);
    }
  });
}

TEST(GoRuntimeTestChan, FourSendersAndFourReceiversLoseAndDuplicateNothing) {
  run_each_capacity([](int capacity) {
    constexpr std::size_t kPairs = 4;
    constexpr int kEach = rounds(1000);
    const Channel<int> c(capacity);
    std::array<std::vector<int>, kPairs> counts;
    TaskGroup group;
    for (std::vector<int>& count : counts) {
      group.go([=] {
        for (int i = 0; i < kEach; ++i) c.send(int{i});
      });
      group.go([&count, c] {
        count.resize(kEach);
        for (int i = 0; i < kEach; ++i) ++count.at(static_cast<std::size_t>(c.recv().value()));
      });
    }
    group.wait();
    for (std::size_t i = 0; i < kEach; ++i) {
      std::size_t sum = 0;
      for (const std::vector<int>& count : counts) sum += static_cast<std::size_t>(count[i]);
      ASSERT_EQ(sum, kPairs) << i;
    }
  });
}

TEST(GoRuntimeTestChan, LenAndCapAreThoseGiven) {
  run_each_capacity([](int capacity) {
    const Channel<int> c(capacity);
    EXPECT_EQ(c.size(), 0U);
    EXPECT_EQ(c.capacity(), static_cast<std::size_t>(capacity));
    for (int i = 0; i < capacity; ++i) c.send(int{i});
    EXPECT_EQ(c.size(), static_cast<std::size_t>(capacity));
    EXPECT_EQ(c.capacity(), static_cast<std::size_t>(capacity));
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

TEST(GoRuntimeMultiConsumer, TwentyThreeConsumersTakeEachNumberOnce) {
  constexpr std::array kNumbers = {2, 3, 7, 11, 13, 17, 19, 23, 27, 31};
  on_each_worker_count([&](const SchedulerOptions& options) {
    run(
        [&] {
          constexpr std::size_t kConsumers = 23;
          constexpr int kItems = rounds(271'828) / 4;
          const Channel<int> in(kConsumers * 3);
          const Channel<int> out(kConsumers * 3);
          WaitGroup consumers;
          for (std::size_t w = 0; w < kConsumers; ++w) {
            consumers.add();
            go([&, own = kNumbers[w % kNumbers.size()]] {
              for (const int number : in) {
                if (number == own) yield();  // upsets the order in which they are served
                out.send(int{number});
              }
              consumers.done();
            });
          }
          int expected = 0;
          go([&] {
            for (std::size_t i = 0; i < kItems; ++i) {
              expected += kNumbers[i % kNumbers.size()];
              in.send(int{kNumbers[i % kNumbers.size()]});
            }
            in.close();
            consumers.wait();
            out.close();
          });
          int count = 0;
          int sum = 0;
          for (const int number : out) {
            ++count;
            sum += number;
          }
          EXPECT_EQ(count, kItems);
          EXPECT_EQ(sum, expected);
        },
        options);
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
