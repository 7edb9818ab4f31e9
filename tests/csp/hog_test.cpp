// A fiber that computes and does not wait keeps one worker, and nothing but that. Each of these
// hangs where the other fiber has to wait until the hog has ended.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "leat/csp/channel.h"
#include "leat/csp/futex.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/tests/support/run.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

void compute_until(const std::atomic<int>& count, int least) {
  while (count < least) cpu_relax();
}

// Long enough for workers that look for work to fall asleep; what is tested holds without, too.
void until_idle_workers_sleep() { std::this_thread::sleep_for(1ms); }

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
            group.go([&] { ++ran; });
            compute_until(ran, i);
          }
        });
        group.wait();
      },
      {.workers = 2});
}

}  // namespace
}  // namespace leat
