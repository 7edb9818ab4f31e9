// Times that arrive through channels, a call that blocks, and a group that is stopped, on a virtual
// clock: two seconds of it take no time, and every run is the same.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "examples/written.h"
#include "leat/csp/blocking.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/csp/ticker.h"

using namespace std::chrono_literals;

int main() {
  leat::VirtualClock clock;
  // [clockwork]
  const auto watch = [&clock] {
    std::atomic<int> polls = 0;
    leat::TaskGroup group;
    group.go([&polls] {
      for (;; leat::sleep_for(400ms)) {
        // Blocks a thread of a pool of its own, not the workers.
        if (leat::blocking([] { return std::filesystem::exists("stop"); })) return;
        ++polls;
      }
    });

    const leat::Ticker report = leat::tick(500ms);
    const leat::Receiver<leat::TimePoint> enough = leat::after(1750ms);
    for (bool go_on = true; go_on;) {
      leat::select(
          leat::on_recv(report.ticks(), [&](auto) { std::printf("%d polls, ", polls.load()); }),
          leat::on_recv(enough, [&](auto) { go_on = false; }));
    }
    std::printf("done after %lld ms\n", static_cast<long long>(clock.elapsed() / 1ms));
  };  // the group goes: its fiber's sleep throws leat::Cancelled, which unwinds it
  leat::run(watch, {.workers = 1, .clock = &clock});
  // [/clockwork]
  return if_written(0);
}
