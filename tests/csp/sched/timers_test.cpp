#include "leat/csp/sched/timers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <list>
#include <numeric>
#include <random>
#include <vector>

namespace leat {
namespace timers_test {

TimePoint at(int nanoseconds) { return TimePoint(Duration(nanoseconds)); }

TEST(TimerHeap, PopsTheEarliestFirst) {
  TimerHeap heap;
  EXPECT_TRUE(heap.empty());
  std::vector<Timer> timers(5);
  const std::vector<int> times = {30, 10, 50, 20, 40};
  for (std::size_t i = 0; i < timers.size(); ++i) {
    timers[i].at = at(times[i]);
    heap.add(timers[i]);
  }
  for (const int expected : {10, 20, 30, 40, 50}) {
    ASSERT_FALSE(heap.empty());
    EXPECT_EQ(heap.earliest(), at(expected));
    EXPECT_EQ(heap.pop().at, at(expected));
  }
  EXPECT_TRUE(heap.empty());
}

TEST(TimerHeap, PopsEqualDeadlinesInTheOrderTheyWereAdded) {
  TimerHeap heap;
  std::vector<Timer> timers(100);
  for (std::size_t i = 0; i < timers.size(); ++i) {
    timers[i].at = at(static_cast<int>(i % 3));
    heap.add(timers[i]);
  }
  for (std::size_t rest = 0; rest < 3; ++rest) {
    for (std::size_t i = rest; i < timers.size(); i += 3) EXPECT_EQ(&heap.pop(), &timers[i]);
  }
}

TEST(TimerHeap, RemovesAnyTimerAndIgnoresOneThatIsNotIn) {
  TimerHeap heap;
  Timer a;
  Timer b;
  Timer c;
  a.at = at(1);
  b.at = at(2);
  c.at = at(3);
  heap.remove(a);
  for (Timer* timer : {&a, &b, &c}) heap.add(*timer);
  heap.remove(a);
  heap.remove(a);
  EXPECT_EQ(heap.earliest(), at(2));
  heap.remove(c);
  EXPECT_EQ(&heap.pop(), &b);
  heap.remove(b);
  EXPECT_TRUE(heap.empty());
  heap.add(a);  // again
  EXPECT_EQ(&heap.pop(), &a);
}

TEST(TimerHeap, AgreesWithASortedListThroughRandomOperations) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t bound) { return random() % bound; };
  TimerHeap heap;
  std::vector<Timer> timers(60);
  std::list<Timer*> model;  // in the order they must be popped
  for (int step = 0; step < 20'000; ++step) {
    Timer& timer = timers[below(timers.size())];
    const auto place = std::find(model.begin(), model.end(), &timer);
    switch (below(3)) {
      case 0:
        if (place != model.end()) break;
        timer.at = at(static_cast<int>(below(40)));
        heap.add(timer);
        model.insert(std::find_if(model.begin(), model.end(),
                                  [&](const Timer* other) { return other->at > timer.at; }),
                     &timer);
        break;
      case 1:
        heap.remove(timer);
        if (place != model.end()) model.erase(place);
        break;
      default:
        if (model.empty()) break;
        ASSERT_EQ(heap.earliest(), model.front()->at);
        ASSERT_EQ(&heap.pop(), model.front()) << "in step " << step;
        model.pop_front();
    }
    ASSERT_EQ(heap.empty(), model.empty());
  }
}

/// How many others taking out `timer` looks at: those on the paths that go right below it.
int seen_by_removal(const Timer& timer) {
  int count = 0;
  for (const Timer* child : {timer.left, timer.right}) {
    for (; child != nullptr; child = child->right) ++count;
  }
  return count;
}

// Each time, and not on the average alone: every worker that wants the scheduler's lock spins
// meanwhile.
TEST(TimerHeap, LooksAtFewOthersEachTime) {
  constexpr int kTimers = 20'000;
  constexpr int kDepth = 15;  // 2^15 > kTimers
  std::vector<int> rising(kTimers);
  std::iota(rising.begin(), rising.end(), 0);
  const std::vector<int> falling(rising.rbegin(), rising.rend());
  std::vector<int> mixed = rising;
  std::shuffle(mixed.begin(), mixed.end(), std::mt19937(1));
  for (const std::vector<int>& times : {rising, falling, mixed}) {
    std::vector<Timer> timers(kTimers);
    std::vector<Timer*> by_time(kTimers);
    TimerHeap heap;
    for (std::size_t i = 0; i < timers.size(); ++i) {
      timers[i].at = at(times[i]);
      by_time[static_cast<std::size_t>(times[i])] = &timers[i];
      heap.add(timers[i]);
    }
    for (std::size_t i = 0; i < timers.size(); ++i) {
      if (i % 3 == 0) {  // from the middle
        Timer& removed = timers[i];
        EXPECT_LE(seen_by_removal(removed), 2 * kDepth);
        heap.remove(removed);
      }
    }
    for (Timer* const next : by_time) {
      if (!next->queued) continue;
      EXPECT_LE(seen_by_removal(*next), 2 * kDepth);
      EXPECT_EQ(&heap.pop(), next);
    }
    EXPECT_TRUE(heap.empty());
  }
}

}  // namespace timers_test
}  // namespace leat
