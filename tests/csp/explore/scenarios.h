// Small programs to be explored. Each fails if it sees a result that must not occur.
//
// `Parties` are the fibers or plain threads that run beside the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/explore.h"
#include "leat/csp/mutex.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"

namespace leat::scenarios {

// AddressSanitizer sees some of the schedules, which use the memory that all use.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr std::uint64_t kMostSchedules = 1'000;
#else
inline constexpr std::uint64_t kMostSchedules = 100'000'000;  // more than there are
#endif

// At once: an exception would join the threads first, and they may hang.
inline void require(bool condition, const char* what) {
  if (!condition) hooks::fail(what);
}

/// Plain threads, without a scheduler, or beside one (then somebody has to hold an OutsideWork).
class Threads {
 public:
  template <class F>
  void start(F&& body) {
    threads_.emplace_back(std::forward<F>(body));
  }
  /// The one started last waits for something, or has ended.
  void let_it_wait() { threads_.back().wait_until_it_waits(); }
  void join() { threads_.clear(); }

 private:
  std::vector<SimulatedThread> threads_;
};

/// Fibers of the caller's scheduler.
class Fibers {
 public:
  template <class F>
  void start(F&& body) {
    group_.go(std::forward<F>(body));
  }
  /// Certain with one worker only.
  void let_it_wait() { yield(); }
  void join() { group_.wait(); }

 private:
  TaskGroup group_;
};

template <class Parties>
void rendezvous() {
  Channel<int> c(0);
  Parties parties;
  parties.start([&] {
    c.send(1);
    c.send(2);
  });
  require(c.recv() == 1, "the first value");
  require(c.recv() == 2, "the second value");
  parties.join();
}

/// The receiver may block first: then the sender has to wake it.
template <class Parties>
void buffered_one() {
  Channel<int> c(1);
  std::optional<int> got;
  Parties parties;
  parties.start([&] { got = c.recv(); });
  c.send(1);
  parties.join();
  require(got == 1, "the value that was sent");
}

/// The sender that blocks first sends first.
template <class Parties>
void senders_in_turn() {
  Channel<int> c(1);
  c.send(1);
  Parties parties;
  parties.start([&] { c.send(2); });
  parties.let_it_wait();
  SimulatedThread later([&] { c.send(3); });
  require(c.recv() == 1, "what was buffered");
  require(c.recv() == 2, "a blocked sender was overtaken");
  require(c.recv() == 3, "the later sender");
  parties.join();
}

/// Values of one sender keep their order beside those of another.
template <class Parties>
void two_senders() {
  Channel<int> c(1);
  Parties parties;
  parties.start([&] {
    c.send(1);
    c.send(2);
  });
  parties.start([&] { c.send(10); });
  int last = 0;
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    const int value = *c.recv();
    sum += value;
    if (value >= 10) continue;
    require(value == last + 1, "the values of one sender, in order");
    last = value;
  }
  require(sum == 13, "every value once");
  parties.join();
}

template <class Parties>
void select_two_peers() {
  Channel<int> a(0);
  Channel<int> b(0);
  Parties parties;
  parties.start([&] { a.send(1); });
  parties.start([&] { b.send(2); });
  int sum = 0;
  const auto add = [&](std::optional<int> value) { sum += value.value(); };
  for (int i = 0; i < 2; ++i) select(on_recv(a, add), on_recv(b, add));
  require(sum == 3, "each value once");
  parties.join();
}

/// One value, taken by a select that a close ends, or left in the channel.
template <class Parties>
void select_against_close() {
  Channel<int> values(1);
  Channel<int> quit(0);
  Parties parties;
  parties.start([&] { values.send(1); });
  parties.start([&] { quit.close(); });
  int taken = 0;
  bool ended = false;
  while (!ended) {
    select(on_recv(values, [&](std::optional<int> value) { taken += value.value(); }),
           on_recv(quit, [&](std::optional<int> value) {
             require(!value, "quit carries no value");
             ended = true;
           }));
  }
  parties.join();
  values.close();
  while (const std::optional<int> rest = values.recv()) taken += *rest;
  require(taken == 1, "the value, once");
}

template <class Parties>
void close_wakes_all() {
  Channel<int> c(0);
  int ended = 0;
  Mutex mutex;
  Parties parties;
  for (int i = 0; i < 2; ++i) {
    parties.start([&] {
      require(!c.recv(), "a closed channel has no value");
      const std::lock_guard<Mutex> lock(mutex);
      ++ended;
    });
  }
  c.close();
  require(!c.recv(), "a closed channel is ready");
  parties.join();
  require(ended == 2, "all were woken");
}

template <class Parties>
void mutual_exclusion() {
  Mutex mutex;
  Atomic<int> inside{0};
  int count = 0;
  const auto enter = [&] {
    const std::lock_guard<Mutex> lock(mutex);
    require(inside.fetch_add(1) == 0, "alone inside");
    ++count;
    inside.fetch_sub(1);
  };
  Parties parties;
  parties.start(enter);
  parties.start(enter);
  enter();
  parties.join();
  require(count == 3, "everybody was inside");
}

/// A deadline and a sender come at once: the value is received or still there.
template <class Parties>
void timeout_against_send() {
  Channel<int> c(0);
  Parties parties;
  parties.start([&] { c.send(1); });
  std::optional<int> value;
  const ChannelStatus status = c.recv_until(value, from_now(std::chrono::milliseconds(1)));
  require((status == ChannelStatus::ok) == value.has_value(), "what the status says");
  if (!value) value = c.recv();
  require(value == 1, "the value");
  parties.join();
}

/// A cancellation and a select that has no channel, so that no lock keeps it waiting.
inline void cancellation_against_nil_select() {
  const OutsideWork not_a_deadlock;
  bool selected = false;
  {
    TaskGroup group;
    group.go([&] {
      const Channel<int> nil;
      select(on_recv(nil), on_recv(nil));
      selected = true;
    });
    yield();
  }
  require(!selected, "a nil channel is never ready");
}

}  // namespace leat::scenarios
