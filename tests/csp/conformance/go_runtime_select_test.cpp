// Go's runtime/chan_test.go, as far as it is about select.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/base/sanitizers.h"
#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace go_runtime_select_test {

using namespace std::chrono_literals;
using support::Counted;
using support::on_each_worker_count;
using support::rounds;
using support::run_each;
using support::until_idle;

// A round takes a hundred polls. Where other programs use the CPUs, fibers that wait for each other
// cost a time slice each time: after a second, the fewest rounds are enough.
constexpr int kFewestRounds = 100;
#if defined(LEAT_ASAN) || defined(LEAT_TSAN)
constexpr int kMostRounds = kFewestRounds;
#else
constexpr int kMostRounds = 1000;
#endif

/// Two fibers that take the same steps at the same time, where each has a worker that runs.
class LockStep {
 public:
  /// Fiber 0 or 1 is at its `step`. Waits for the other one: a little, or as long as it takes.
  void reach(std::size_t fiber, int step, bool for_certain) {
    at_.at(fiber) = step;
    for (int i = 0; at_.at(1 - fiber) < step; ++i) {
      if (for_certain && i % 100 == 99) yield();
      if (!for_certain && i == 100) return;
    }
  }

 private:
  std::array<std::atomic<int>, 2> at_{};
};

/// Polls two channels of which one is ready at every instant: the second becomes so before the
/// first one's value goes. One that looks at them one after the other finds neither, now and then.
template <class MakeReady>
void nonblock_select_race(const MakeReady& make_ready) {
  on_each_worker_count([&](const SchedulerOptions& options) {
    const int most = options.workers == 1 ? kFewestRounds / 2 : kMostRounds;  // one worker: no race
    run(
        [&] {
          constexpr int kPairs = 100;
          std::vector<std::array<Channel<int>, 2>> pairs(kPairs);
          LockStep steps;
          bool ended = false;
          int missed = 0;
          // False, and nothing is done, when the rounds have ended.
          const auto each_pair = [&](std::size_t fiber, int round, const auto& meet) {
            int step = round * (kPairs + 2);
            steps.reach(fiber, ++step, true);
            if (ended) return false;
            for (const auto& [a, b] : pairs) {
              steps.reach(fiber, ++step, false);
              meet(a, b, step);
            }
            steps.reach(fiber, ++step, true);
            return true;
          };
          TaskGroup group;
          group.go([&] {
            const auto poll = [&](const auto& a, const auto& b, int) {
              select(on_recv(a), on_recv(b), otherwise([&] { ++missed; }));
            };
            for (int round = 0; each_pair(0, round, poll);) ++round;
          });
          const auto pass_on = [&](const auto& a, const auto& b, int step) {
            for (std::atomic<int> delay = step % 50; delay > 0;) --delay;
            make_ready(b);
            select(on_recv(a), otherwise());
          };
          const TimePoint enough = now() + 1s;
          for (int round = 0; !ended; ++round) {
            for (auto& [a, b] : pairs) {
              a = Channel<int>(1);
              b = Channel<int>(1);
              a.send(1);
            }
            ended = round == most || (round >= kFewestRounds && now() >= enough);
            each_pair(1, round, pass_on);
          }
          group.wait();
          EXPECT_EQ(missed, 0);
        },
        options);
  });
}

TEST(GoRuntimeNonblockSelectRace, OneOfTwoIsReadyAtEveryInstantByItsValue) {
  nonblock_select_race([](const Channel<int>& c) { c.send(1); });
}

TEST(GoRuntimeNonblockSelectRace2, OneOfTwoIsReadyAtEveryInstantByClose) {
  nonblock_select_race([](const Channel<int>& c) { c.close(); });
}

TEST(GoRuntimeSelfSelect, TwoFibersThatSendAndReceiveInOneSelectNeverMeetThemselves) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [] {
          for (const int capacity : {0, 10}) {
            const Channel<int> c(capacity);
            TaskGroup group;
            for (const int own : {0, 1}) {
              group.go([=] {
                const auto received = [=](std::optional<int> v) {
                  EXPECT_TRUE(capacity > 0 || v != own) << "received from itself";
                };
                for (int i = 0; i < rounds(10'000); ++i) {
                  if (own == 0 || i % 2 == 0) {
                    select(on_send(c, int{own}), on_recv(c, received));
                  } else {
                    select(on_recv(c, received), on_send(c, int{own}));
                  }
                }
              });
            }
            group.wait();
          }
        },
        options);
  });
}

// Plain operations and selects on the same four channels. As many values are sent as received, and
// a select drops a channel that is through: that nothing hangs is what is tested.
TEST(GoRuntimeSelectStress, TenFibersOnFourChannelsEndTogether) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [] {
          constexpr int kEach = rounds(20'000);
          const std::array<Channel<int>, 4> channels = {Channel<int>(0), Channel<int>(0),
                                                        Channel<int>(2), Channel<int>(3)};
          std::atomic<long> sent = 0;
          std::atomic<long> received = 0;
          TaskGroup group;
          for (const Channel<int>& c : channels) {
            group.go([&sent, c] {
              for (int i = 0; i < kEach; ++i) {
                c.send(int{i});
                sent += i;
              }
            });
            group.go([&received, c] {
              for (int i = 0; i < kEach; ++i) received += c.recv().value();
            });
          }
          group.go([&, c = channels]() mutable {
            std::array<int, 4> n{};
            const auto one_more = [&](std::size_t k) {
              sent += n.at(k);
              if (++n.at(k) == kEach) c.at(k) = {};
            };
            for (int i = 0; i < 4 * kEach; ++i) {
              select(on_send(c[3], int{n[3]}, [&] { one_more(3); }),
                     on_send(c[2], int{n[2]}, [&] { one_more(2); }),
                     on_send(c[0], int{n[0]}, [&] { one_more(0); }),
                     on_send(c[1], int{n[1]}, [&] { one_more(1); }));
            }
          });
          group.go([&, c = channels]() mutable {
            std::array<int, 4> n{};
            const auto one_more = [&](std::size_t k, std::optional<int> v) {
              received += v.value();
              if (++n.at(k) == kEach) c.at(k) = {};
            };
            for (int i = 0; i < 4 * kEach; ++i) {
              select(on_recv(c[0], [&](std::optional<int> v) { one_more(0, v); }),
                     on_recv(c[1], [&](std::optional<int> v) { one_more(1, v); }),
                     on_recv(c[2], [&](std::optional<int> v) { one_more(2, v); }),
                     on_recv(c[3], [&](std::optional<int> v) { one_more(3, v); }));
            }
          });
          group.wait();
          EXPECT_EQ(sent, received);
          for (const Channel<int>& c : channels) EXPECT_EQ(c.size(), 0U);
        },
        options);
  });
}

// Also where a select waits: a peer that comes makes both of its cases ready at once.
TEST(GoRuntimePseudoRandomSend, ASelectThatSendsOneOfTwoValuesSendsBoth) {
  run_each([] {
    constexpr int kValues = 100;
    for (const int capacity : {0, kValues}) {
      const Channel<int> c(capacity);
      std::array<int, 2> count{};
      TaskGroup group;
      group.go([&] {
        for (int i = 0; i < kValues; ++i) {
          yield();
          ++count.at(static_cast<std::size_t>(c.recv().value()));
        }
      });
      for (int i = 0; i < kValues; ++i) select(on_send(c, 1), on_send(c, 0));
      group.wait();
      EXPECT_GT(count[0], kValues / 10);
      EXPECT_GT(count[1], kValues / 10);
    }
  });
}

// The select stands twice in the queue of c. Both places must go, and the one behind them stay.
TEST(GoRuntimeSelectDuplicateChannel, WhoStandsTwiceInAQueueLeavesItTwice) {
  run_each([] {
    const Channel<int> c(0);
    const Channel<int> d(0);
    const Channel<int> e(0);
    TaskGroup group;
    group.go([&] {
      EXPECT_EQ(select(on_recv(c), on_recv(c), on_recv(d)), 2);
      e.send(9);
    });
    until_idle();
    group.go([&] { EXPECT_EQ(c.recv(), 8); });
    until_idle();
    d.send(7);
    EXPECT_EQ(e.recv(), 9);
    c.send(8);
    group.wait();
    EXPECT_EQ(c.try_send(1), ChannelStatus::would_block);
  });
}

/// What a request comes to: it owns memory, so that a value that is read before it was written, or
/// twice, is seen by the sanitizers.
struct Response {
  std::unique_ptr<std::string> error;
  Counted counted;
};

/// Asks a fiber of its own, through channels of its own, and drops both at once.
std::string request(TaskGroup& group, bool by_select) {
  const Channel<Response> answer(0);
  const Channel<int> done(0);
  group.go([=] {
    Response response{std::make_unique<std::string>("not found"), Counted(404)};
    if (by_select) {
      select(on_send(answer, std::move(response)), on_recv(done));
    } else {
      answer.send(std::move(response));
    }
  });
  const std::optional<Response> got = answer.recv();
  yield();
  EXPECT_EQ(got->counted.number(), 404);
  return *got->error;
}

void send_barrier(bool by_select) {
  on_each_worker_count([&](const SchedulerOptions& options) {
    run(
        [&] {
          TaskGroup outer;
          for (int f = 0; f < 20; ++f) {
            outer.go([by_select] {
              TaskGroup group;
              for (int i = 0; i < rounds(200); ++i) {
                ASSERT_EQ(request(group, by_select), "not found");
                const std::string garbage(static_cast<std::size_t>(i), 'x');
                ASSERT_EQ(garbage.size(), static_cast<std::size_t>(i));
              }
              group.wait();
            });
          }
          outer.wait();
        },
        options);
    EXPECT_EQ(Counted::live(), 0);
  });
}

TEST(GoRuntimeChanSendSelectBarrier, AValueSentBySelectIsWholeWhenItArrives) { send_barrier(true); }
TEST(GoRuntimeChanSendBarrier, ASentValueIsWholeWhenItArrives) { send_barrier(false); }

}  // namespace go_runtime_select_test
}  // namespace leat
