// A fiber that computes and does not wait (a hog) keeps one worker, and delays no other fiber. Each
// test hangs if another fiber has to wait until the hog has ended. The times for which a hog
// computes are lower bounds: long enough that there is no monitor any more
// (tuning::kQuietLooks). What is tested holds earlier, too.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "leat/csp/base/futex.h"
#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace hog_test {

using namespace std::chrono_literals;

void compute_until(const std::atomic<int>& count, int least) {
  while (count < least) cpu_relax();
}

void until_idle_workers_sleep() { std::this_thread::sleep_for(1ms); }

void compute_for(std::chrono::microseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time;
       std::chrono::steady_clock::now() < end;) {
    cpu_relax();
  }
}

TEST(Hog, DoesNotDelayWhoIsWokenByAThread) {
  const int rounds = support::rounds(30);
  Scheduler scheduler({.workers = 2});
  const Channel<int> calls(0);
  std::atomic<int> hogging{0};
  std::atomic<int> answered{0};
  scheduler.go([&] {
    for (int i = 1; i <= rounds; ++i) {
      hogging = i;
      compute_until(answered, i);
    }
  });
  scheduler.go([&, calls] {
    while (calls.recv()) ++answered;
  });
  for (int i = 1; i <= rounds; ++i) {
    compute_until(hogging, i);
    until_idle_workers_sleep();
    calls.send(i);
    compute_until(answered, i);
  }
  calls.close();
  scheduler.join();
}

TEST(Hog, DoesNotDelayWhomItHasWoken) {
  run(
      [] {
        const int rounds = support::rounds(30);
        const Channel<int> calls(1);
        std::atomic<int> answered{0};
        TaskGroup group;
        group.go([&, calls] {
          while (calls.recv()) ++answered;
        });
        group.go([&, calls] {
          for (int i = 1; i <= rounds; ++i) {
            sleep_for(100us);
            calls.send(i);
            compute_until(answered, i);
          }
          calls.close();
        });
        group.wait();
      },
      {.workers = 2});
}

TEST(Hog, DoesNotDelayWhomItHasLaunched) {
  run(
      [] {
        const int rounds = support::rounds(30);
        std::atomic<int> ran{0};
        TaskGroup group;
        group.go([&] {
          for (int i = 1; i <= rounds; ++i) {
            sleep_for(100us);
            compute_for(1ms);
            group.go([&] { ++ran; });
            compute_until(ran, i);
          }
        });
        group.wait();
      },
      {.workers = 2});
}

// Slices were short before, so the woken stands in the run-next slot.
TEST(Hog, DoesNotDelayWhomItWakesWhenNobodyWatches) {
  run(
      [] {
        const int rounds = support::rounds(30);
        const Channel<int> there(0);
        const Channel<int> back(0);
        std::atomic<int> answered{0};
        TaskGroup group;
        group.go([&, there, back] {
          while (const auto value = there.recv()) {
            if (*value > 0) {
              answered = *value;
            } else {
              back.send(0);
            }
          }
        });
        group.go([&, there, back] {
          for (int i = 1; i <= rounds; ++i) {
            for (int j = 0; j < 300; ++j) {
              there.send(0);
              static_cast<void>(back.recv());
            }
            compute_for(3ms);
            there.send(i);
            compute_until(answered, i);
          }
          there.close();
        });
        group.wait();
      },
      {.workers = 2});
}

// All but one of the workers compute until the last one has begun.
TEST(Hog, DoesNotDelayAnyOfThoseWhomItHasLaunched) {
  for (const int workers : {3, 4}) {
    run(
        [workers] {
          const int rounds = support::rounds(10);
          for (int i = 1; i <= rounds; ++i) {
            std::atomic<int> running{0};
            TaskGroup group;
            group.go([&] {
              compute_for(1ms);
              for (int j = 1; j < workers; ++j) {
                group.go([&] {
                  ++running;
                  compute_until(running, workers);
                });
              }
              ++running;
              compute_until(running, workers);
            });
            group.wait();
          }
        },
        {.workers = workers});
  }
}

// A worker whose fiber sleeps finds a hog next: somebody else keeps the time.
TEST(Hog, DoesNotDelayTimers) {
  const int rounds = support::rounds(100);
  for (int i = 0; i < rounds; ++i) {
    Scheduler scheduler({.workers = 2});
    std::atomic<int> about_to_sleep{0};
    std::atomic<int> slept{0};
    scheduler.go([&] {
      std::this_thread::sleep_for(2ms);  // as a hog, but leaves the other worker a CPU to doze off
      about_to_sleep = 1;
      sleep_for(1ms);
      slept = 1;
    });
    compute_until(about_to_sleep, 1);
    compute_for(std::chrono::microseconds(i % 50));  // while that worker looks for work
    scheduler.go([&] { compute_until(slept, 1); });
    scheduler.join();
  }
}

}  // namespace hog_test
}  // namespace leat
