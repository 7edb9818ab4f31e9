// Fibers and threads that use everything of csp at once, while their threads lose their CPU at
// random places. Fails by AddressSanitizer's report, a crash, a hang, a value that is lost, or a
// spin lock that is held over an allocation (hooks.cpp).
//
//   csp_chaos <seeds>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "leat/csp/blocking.h"
#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/notification.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/semaphore.h"
#include "leat/csp/task_group.h"
#include "leat/csp/ticker.h"
#include "leat/csp/wait_group.h"

namespace {

using namespace std::chrono_literals;
using leat::Channel;
using Random = std::minstd_rand;

// Counts the values that live.
struct Value {
  static inline std::atomic<long> live{0};

  explicit Value(unsigned i) : data(std::make_unique<unsigned>(i)) { ++live; }
  Value(Value&& other) noexcept : data(std::move(other.data)) { ++live; }
  Value& operator=(Value&&) noexcept = default;
  ~Value() { --live; }

  std::unique_ptr<unsigned> data;
};

leat::Duration up_to(unsigned microseconds, Random& random) {
  return std::chrono::microseconds(random() % microseconds);
}

void any_operation(const std::vector<Channel<Value>>& channels, Random& random) {
  const auto any = [&] { return channels[random() % channels.size()]; };
  const auto take = [](std::optional<Value> /*value*/) {};
  const Channel<Value> a = any();
  const Channel<Value> b = any();
  switch (random() % 10) {
    case 0: {
      Value value(0);
      static_cast<void>(a.send_until(std::move(value), leat::from_now(up_to(60, random))));
      break;
    }
    case 1: {
      std::optional<Value> value;
      static_cast<void>(a.recv_until(value, leat::from_now(up_to(60, random))));
      break;
    }
    case 2:
      leat::select(leat::on_recv(a, take), leat::on_recv(b, take),
                   leat::on_timeout(up_to(80, random)));
      break;
    case 3:
      leat::select(leat::on_send(a, Value(3)), leat::on_recv(b, take),
                   leat::on_timeout(up_to(80, random)));
      break;
    case 4:
      leat::select(leat::on_recv(Channel<Value>()), leat::on_recv(b, take),
                   leat::on_timeout(up_to(80, random)));
      break;
    case 5: static_cast<void>(a.try_send(Value(5))); break;
    case 6: {
      std::optional<Value> value;
      static_cast<void>(a.try_recv(value));
      break;
    }
    case 7:
      leat::yield();
      if (random() % 40 == 0) a.try_close();
      break;
    case 8:
      leat::select(leat::on_send(a, Value(8)), leat::on_send(b, Value(8)), leat::on_recv(a, take),
                   leat::on_timeout(up_to(80, random)));
      break;
    case 9:  // no channel, hence no lock
      leat::select(leat::on_recv(Channel<Value>()), leat::on_recv(Channel<Value>()),
                   leat::on_timeout(up_to(20, random)));
      break;
  }
}

// Channels of which some are closed on the way, and all go while fibers wait on them.
void channels(Random& random) {
  for (int round = 0; round < 3; ++round) {
    std::vector<Channel<Value>> all;
    for (std::size_t i = 0; i < 4; ++i) all.emplace_back(i % 3);
    leat::TaskGroup group;
    for (int i = 0; i < 12; ++i) {
      group.go([all, seed = random()] {
        Random own(seed);
        for (int turn = 0; turn < 60; ++turn) {
          try {
            any_operation(all, own);
          } catch (const leat::ChannelClosed&) {
          }
        }
      });
    }
    if (round == 1) {
      leat::sleep_for(300us);
      group.stop();
    }
    all.clear();
    group.wait();
  }
}

void locks(Random& random) {
  leat::Mutex mutex;
  leat::Semaphore semaphore(2);
  leat::TaskGroup group;
  for (int i = 0; i < 8; ++i) {
    group.go([&, seed = random()] {
      Random own(seed);
      for (int turn = 0; turn < 40; ++turn) {
        if (mutex.try_lock_until(leat::from_now(up_to(50, own)))) {
          leat::yield();
          mutex.unlock();
        }
        const auto permits = static_cast<std::int64_t>(1 + own() % 2);
        if (semaphore.acquire_until(permits, leat::from_now(up_to(50, own)))) {
          leat::yield();
          semaphore.release(permits);
        }
      }
    });
  }
  leat::sleep_for(200us);
  if (random() % 2 == 0) group.stop();
  group.wait();
}

// What goes as soon as its waiters are woken.
void signals() {
  for (int i = 0; i < 10; ++i) {
    leat::TaskGroup group;
    const auto told = std::make_unique<leat::Notification>();
    leat::WaitGroup all;
    all.add(3);
    for (int k = 0; k < 3; ++k) {
      group.go([&] {
        told->wait();
        all.done();
      });
    }
    group.go([&] { static_cast<void>(all.wait_until(leat::from_now(20us))); });
    told->notify();
    all.wait();
    group.wait();
  }
}

void timers_and_calls() {
  leat::TaskGroup group;
  for (int i = 0; i < 4; ++i) {
    group.go([] {
      const leat::Ticker ticker = leat::tick(30us);
      for (int turn = 0; turn < 5; ++turn) {
        leat::select(leat::on_recv(ticker.ticks()), leat::on_recv(leat::after(50us)));
      }
      leat::blocking([] { std::this_thread::sleep_for(20us); });
    });
  }
  group.wait();
}

void beside_threads() {
  const leat::OutsideWork threads;
  const Channel<Value> in(1);
  const Channel<Value> out(0);
  std::jthread sender([in] {
    for (unsigned i = 0; i < 100; ++i) in.send(Value(i));
    in.close();
  });
  std::jthread receiver([out] {
    while (out.recv()) {
    }
  });
  leat::TaskGroup group;
  for (int i = 0; i < 3; ++i) {
    group.go([in, out] {
      for (Value& value : in) out.send(std::move(value));
    });
  }
  group.wait();
  out.close();
  leat::blocking([&] {
    sender.join();
    receiver.join();
  });
}

// Channels whose last handle goes while a fiber waits.
void orphans() {
  for (int i = 0; i < 10; ++i) {
    leat::TaskGroup group;
    {
      const Channel<Value> c(0);
      group.go([c] {
        std::optional<Value> value;
        static_cast<void>(c.recv_until(value, leat::from_now(30us)));
      });
      group.go(
          [c]() mutable { leat::select(leat::on_recv(std::move(c)), leat::on_timeout(25us)); });
    }
    leat::yield();
    if (i % 2 != 0) group.stop();
    group.wait();
  }
}

void program(unsigned seed) {
  leat::run(
      [&] {
        Random random(seed);
        channels(random);
        locks(random);
        signals();
        timers_and_calls();
        beside_threads();
        orphans();
      },
      {.workers = 1 + static_cast<int>(seed % 4)});
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned seeds = argc == 2 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 0;
  if (seeds == 0) {
    std::fprintf(stderr, "usage: csp_chaos <seeds>\n");
    return 2;
  }
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    program(seed);
    if (Value::live != 0) {
      std::printf("seed %u: %ld values are left\n", seed, Value::live.load());
      return 1;
    }
  }
  std::printf("%u seeds\n", seeds);
}
