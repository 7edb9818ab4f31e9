// Races that a test of one promise cannot reach: peers, deadlines, cancellation and close at the
// same instant, in real time, on all workers. Each checks that nothing is lost, duplicated or
// leaked.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace stress_test {

using namespace std::chrono_literals;
using support::Counted;
using support::on_each_worker_count;
using support::rounds;

/// What went in and what came out.
struct Ledger {
  std::atomic<int> sent = 0;
  std::atomic<int> received = 0;

  void send_until(const Channel<Counted>& c, int number, TimePoint deadline) {
    Counted value(number);
    const ChannelStatus status = c.send_until(std::move(value), deadline);
    if (status == ChannelStatus::ok) ++sent;
    EXPECT_EQ(value.number() == Counted::kMovedFrom, status == ChannelStatus::ok);
  }
  void recv_until(const Channel<Counted>& c, TimePoint deadline) {
    std::optional<Counted> value;
    if (c.recv_until(value, deadline) == ChannelStatus::ok) ++received;
  }
  void drain(const Channel<Counted>& c) {
    std::optional<Counted> value;
    while (c.try_recv(value) == ChannelStatus::ok) ++received;
  }
};

TEST(Stress, PeersAndDeadlinesMeetAtTheSameInstant) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (const int capacity : {0, 2}) {
      Ledger ledger;
      run(
          [&] {
            const Channel<Counted> c(capacity);
            TaskGroup group;
            for (int f = 0; f < 6; ++f) {
              group.go([&, f] {
                for (int i = 0; i < rounds(150); ++i) {
                  const TimePoint deadline = now() + (i * 7 + f) % 30 * 1us;
                  if (f % 2 == 0) {
                    ledger.send_until(c, i, deadline);
                  } else {
                    ledger.recv_until(c, deadline);
                  }
                }
              });
            }
            group.wait();
            ledger.drain(c);
          },
          options);
      EXPECT_EQ(ledger.sent, ledger.received);
      EXPECT_EQ(Counted::live(), 0);
    }
  });
}

TEST(Stress, CancellationMeetsPeersAndDeadlines) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Ledger ledger;
    run(
        [&] {
          for (int round = 0; round < rounds(60); ++round) {
            const Channel<Counted> c(round % 3);
            {
              TaskGroup group;
              for (int f = 0; f < 6; ++f) {
                // Where room and values are always there nobody waits, and waits alone are
                // cancelled.
                group.go([&, f, token = group.stop_token()] {
                  for (int i = 0; !token.stop_requested(); ++i) {
                    const TimePoint deadline = now() + (i + f) % 20 * 1us;
                    if (f % 2 == 0) {
                      ledger.send_until(c, i, deadline);
                    } else {
                      ledger.recv_until(c, deadline);
                    }
                    if (f % 3 == 0) yield();
                  }
                });
              }
              sleep_for(round * 2us);
              for (int i = 0; i < round; ++i) yield();
            }
            ledger.drain(c);
          }
        },
        options);
    EXPECT_EQ(ledger.sent, ledger.received);
    EXPECT_EQ(Counted::live(), 0);
  });
}

TEST(Stress, CancellationFromAPlainThread) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Ledger ledger;
    {
      Scheduler scheduler(options);
      for (int round = 0; round < rounds(100); ++round) {
        const Channel<Counted> c(round % 2);
        {
          TaskGroup group(scheduler);
          for (int f = 0; f < 4; ++f) {
            group.go([&, f] {
              for (int i = 0;; ++i) {
                if (f % 2 == 0) {
                  ledger.send_until(c, i, TimePoint::max());
                } else {
                  ledger.recv_until(c, TimePoint::max());
                }
              }
            });
          }
          for (int i = 0; i < round % 5; ++i) ledger.send_until(c, i, from_now(1us));
        }
        ledger.drain(c);
      }
    }
    EXPECT_EQ(ledger.sent, ledger.received);
    EXPECT_EQ(Counted::live(), 0);
  });
}

TEST(Stress, SelectsMeetEachOtherOnSeveralChannels) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Ledger ledger;
    run(
        [&] {
          const Channel<Counted> a(0);
          const Channel<Counted> b(1);
          const Channel<Counted> d(0);
          const auto sent = [&] { ++ledger.sent; };
          const auto received = [&](std::optional<Counted> value) {
            if (value) ++ledger.received;
          };
          TaskGroup group;
          for (int f = 0; f < 6; ++f) {
            group.go([&, f] {
              for (int i = 0; i < rounds(150); ++i) {
                Counted value(i);
                switch (f % 3) {
                  case 0:
                    select(on_send(a, std::move(value), sent), on_send(b, Counted(i), sent),
                           on_recv(d, received), on_timeout(i % 20 * 1us));
                    break;
                  case 1:
                    select(on_recv(b, received), on_recv(a, received),
                           on_send(d, std::move(value), sent), on_timeout(i % 30 * 1us));
                    break;
                  default:
                    select(on_recv(b, received), on_send(b, std::move(value), sent),
                           on_send(a, std::move(value), sent), on_recv(a, received),
                           on_timeout(i % 10 * 1us));
                }
              }
            });
          }
          group.wait();
          for (const Channel<Counted>& c : {a, b, d}) ledger.drain(c);
        },
        options);
    EXPECT_EQ(ledger.sent, ledger.received);
    EXPECT_EQ(Counted::live(), 0);
  });
}

TEST(Stress, CloseMeetsSelects) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Ledger ledger;
    run(
        [&] {
          for (int round = 0; round < rounds(100); ++round) {
            const Channel<Counted> a(round % 3);
            const Channel<Counted> b(0);
            TaskGroup group;
            for (int f = 0; f < 4; ++f) {
              group.go([&, f] {
                Counted value(f);
                try {
                  for (;;) {
                    if (f % 2 == 0) {
                      Counted next(f);
                      select(on_send(a, std::move(next), [&] { ++ledger.sent; }),
                             on_send(b, std::move(next), [&] { ++ledger.sent; }));
                    } else {
                      bool open = true;
                      const auto received = [&](std::optional<Counted> v) {
                        v ? static_cast<void>(++ledger.received) : static_cast<void>(open = false);
                      };
                      select(on_recv(a, received), on_recv(b, received));
                      if (!open) break;
                    }
                  }
                } catch (const ChannelClosed&) {
                  EXPECT_EQ(f % 2, 0);
                }
              });
            }
            for (int i = 0; i < round % 7; ++i) yield();
            go([a] { a.close(); });
            go([b] { b.close(); });
            group.wait();
            ledger.drain(a);
            ledger.drain(b);
          }
        },
        options);
    EXPECT_EQ(ledger.sent, ledger.received);
    EXPECT_EQ(Counted::live(), 0);
  });
}

TEST(Stress, ChannelsGoRightAfterTheOperation) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [&] {
          TaskGroup group;
          group.set_limit(50);
          for (int i = 0; i < rounds(1000); ++i) {
            // The one handle is owned by the receiver, which drops it as soon as it has the value.
            auto owned = std::make_unique<Channel<Counted>>(i % 2);
            group.go([c = Sender<Counted>(*owned), i] {
              if (i % 3 == 0) {
                c.send(Counted(i));
              } else {
                select(on_send(c, Counted(i)), on_recv(Channel<int>()));
              }
            });
            std::optional<Counted> value;
            if (i % 5 == 0) {
              EXPECT_EQ(owned->recv_until(value, TimePoint::max()), ChannelStatus::ok);
            } else {
              select(
                  on_recv(*owned, [&](std::optional<Counted> v) { value.emplace(std::move(*v)); }));
            }
            owned.reset();
            EXPECT_EQ(value->number(), i);
          }
          group.wait();
        },
        options);
    EXPECT_EQ(Counted::live(), 0);
  });
}

TEST(Stress, SchedulersEndWhileTheirFibersAreBusy) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (int round = 0; round < rounds(30); ++round) {
      Scheduler scheduler(options);
      const Channel<Counted> c(round % 2);
      for (int f = 0; f < 8; ++f) {
        scheduler.go([=] {
          TaskGroup inner;
          inner.go([=] {
            for (int i = 0;; ++i) {
              std::optional<Counted> value;
              static_cast<void>(c.recv_until(value, from_now(5us)));
              yield();
            }
          });
          for (int i = 0;; ++i) c.send(Counted(i));
        });
      }
      for (int i = 0; i < round; ++i) static_cast<void>(c.recv());
    }
    EXPECT_EQ(Counted::live(), 0);
  });
}

TEST(Stress, GroupsFailStopAndEndAtTheSameInstant) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [&] {
          for (int round = 0; round < rounds(100); ++round) {
            TaskGroup group;
            group.set_limit(4);
            std::atomic<int> failed = 0;
            for (int f = 0; f < 8; ++f) {
              group.go([&, f] {
                sleep_for((f * 3 + round) % 10 * 1us);
                if (f % 4 == 3) {
                  ++failed;
                  throw std::runtime_error("x");
                }
              });
            }
            if (round % 3 == 0) group.stop();
            try {
              group.wait();
              EXPECT_TRUE(round % 3 == 0 && failed == 0);
            } catch (const std::runtime_error&) {
              EXPECT_GT(failed, 0);
            }
          }
        },
        options);
  });
}

TEST(Stress, PinnedAndOthersWakeEachOther) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [&] {
          const Channel<int> c(0);
          const Channel<int> d(0);
          TaskGroup group;
          for (int f = 0; f < 8; ++f) {
            group.go(
                [=] {
                  for (int i = 0; i < rounds(300); ++i) {
                    if (f % 2 == 0) {
                      c.send(i);
                      static_cast<void>(d.recv());
                    } else {
                      static_cast<void>(c.recv());
                      d.send(i);
                    }
                  }
                },
                {.pinned = f % 4 < 2});
          }
          group.wait();
        },
        options);
  });
}

}  // namespace stress_test
}  // namespace leat
