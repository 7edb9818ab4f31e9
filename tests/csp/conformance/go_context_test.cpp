// Go's context, as groups have it: a context is the group that a fiber belongs to, its children are
// the groups that the fiber owns, a deadline is a fiber that sleeps and stops the group.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"
#include "tests/support/memory.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace go_context_test {

using namespace std::chrono_literals;
using support::AtExit;
using support::elapsed;
using support::on_each_worker_count;
using support::rounds;
using support::run_each;
using support::until_idle;

void wait_for_ever() { static_cast<void>(Channel<int>().recv()); }

/// Stops the group `length` from now.
void with_timeout(TaskGroup& group, Duration length) {
  group.go([&group, length] {
    sleep_for(length);
    group.stop();
  });
}

/// A complete binary tree of contexts, numbered from 1, the children of n being 2n and 2n + 1.
/// Each node is a fiber that owns a group of its children; each can be stopped from outside.
class Tree {
 public:
  explicit Tree(int depth)
      : leaves_(std::size_t{1} << depth), groups_(2 * leaves_), alive_(2 * leaves_) {}

  void grow(std::size_t n) {
    TaskGroup children;
    groups_[n] = &children;
    alive_[n] = true;
    const Leave leave(*this, n);
    if (n < leaves_) {
      children.go([this, n] { grow(2 * n); });
      children.go([this, n] { grow(2 * n + 1); });
    } else {
      children.go(wait_for_ever);
    }
    children.wait();
  }
  /// Cancels what is below n; n itself then ends normally.
  void stop(std::size_t n) { groups_[n]->stop(); }
  [[nodiscard]] bool alive(std::size_t n) const { return alive_[n]; }
  [[nodiscard]] std::size_t size() const { return 2 * leaves_; }
  [[nodiscard]] static bool is_below(std::size_t n, std::size_t root) {
    while (n > root) n /= 2;
    return n == root;
  }

 private:
  struct Leave {
    Leave(Tree& of, std::size_t number) : tree(of), n(number) {}
    Leave(const Leave&) = delete;
    Leave& operator=(const Leave&) = delete;
    ~Leave() {
      tree.alive_[n] = false;
      // Who is below has left before: children are joined before their parent goes on.
      if (n < tree.leaves_) {
        EXPECT_FALSE(tree.alive_[2 * n] || tree.alive_[2 * n + 1]);
      }
    }
    Tree& tree;
    std::size_t n;
  };

  const std::size_t leaves_;
  std::vector<TaskGroup*> groups_;
  std::vector<std::atomic<bool>> alive_;
};

// TestParentFinishesChild, TestChildFinishesFirst, XTestLayersCancel: for every node of a tree.
TEST(GoContext, StoppingANodeCancelsWhatIsBelowItAndNothingElse) {
  run_each([] {
    constexpr int kDepth = 4;
    constexpr std::size_t kStep = rounds(10) == 10 ? 1 : 5;
    for (std::size_t stopped = 1; stopped < std::size_t{2} << kDepth; stopped += kStep) {
      Tree tree(kDepth);
      TaskGroup root;
      root.go([&] { tree.grow(1); });
      until_idle();
      for (std::size_t n = 1; n < tree.size(); ++n) EXPECT_TRUE(tree.alive(n));
      tree.stop(stopped);
      until_idle();
      // Nodes above whose children have all ended end as well, in their own time.
      for (std::size_t n = 1; n < tree.size(); ++n) {
        EXPECT_EQ(tree.alive(n), !Tree::is_below(n, stopped)) << n << ", stopped " << stopped;
      }
      root.stop();
      root.wait();
      for (std::size_t n = 1; n < tree.size(); ++n) EXPECT_FALSE(tree.alive(n));
    }
  });
}

TEST(GoContext, AChildsErrorOrStopDoesNotReachItsParentUnlessThatWaitsForIt) {
  run_each([] {
    TaskGroup parent;
    bool went_on = false;
    parent.go([&] {
      {
        TaskGroup child;
        child.go([] { throw std::runtime_error("child"); });
        EXPECT_THROW(child.wait(), std::runtime_error);
      }
      {
        TaskGroup child;
        child.go(wait_for_ever);
        child.stop();
        child.wait();
      }
      sleep_for(1ms);  // would throw, had one of them cancelled us
      went_on = true;
    });
    parent.wait();
    EXPECT_TRUE(went_on);
    EXPECT_FALSE(parent.stop_token().stop_requested());
  });
}

// TestLayersTimeout: nested deadlines in any order; the earliest of those around a fiber counts.
TEST(GoContext, OfNestedDeadlinesTheEarliestAroundAFiberCounts) {
  run_each([] {
    const std::vector<int> lengths = {70, 90, 50, 60, 30, 80, 20, 40};
    std::vector<TimePoint> ended(lengths.size());
    std::function<void(std::size_t)> layer = [&](std::size_t i) {
      TaskGroup group;
      with_timeout(group, lengths[i] * 1ms);
      group.go([&, i] {
        try {
          wait_for_ever();
        } catch (const Cancelled&) {
          ended[i] = now();
          throw;
        }
      });
      if (i + 1 < lengths.size()) group.go([&, i] { layer(i + 1); });
      group.wait();
    };
    layer(0);
    int earliest = lengths[0];
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      earliest = std::min(earliest, lengths[i]);
      EXPECT_EQ(ended[i].time_since_epoch(), earliest * 1ms) << "layer " << i;
    }
    EXPECT_EQ(elapsed(), 70ms);
  });
}

// TestWithCancelCanceledParent: what a cancelled fiber starts ends with it.
TEST(GoContext, AChildOfACancelledParentIsCancelledAsSoonAsThatWaits) {
  run_each([] {
    std::atomic<int> unwound = 0;
    bool cancelled_again = false;
    TaskGroup parent;
    parent.go([&] {
      try {
        wait_for_ever();
      } catch (const Cancelled&) {
      }
      TaskGroup child;
      for (int i = 0; i < 3; ++i) {
        child.go([&] {
          const AtExit one(unwound);
          wait_for_ever();
        });
      }
      try {
        child.wait();
      } catch (const Cancelled&) {
        EXPECT_EQ(unwound, 3);
        cancelled_again = true;
        throw;
      }
    });
    until_idle();
    parent.stop();
    parent.wait();
    EXPECT_TRUE(cancelled_again);
  });
}

TEST(GoContext, ADeepChainUnwindsFromItsEnd) {
  constexpr int kDepth = rounds(1000);
  run_each([] {
    std::vector<int> order;  // one fiber at a time writes: the others wait to join it
    std::function<void(int)> nest = [&](int depth) {
      try {
        TaskGroup group;
        if (depth < kDepth) {
          group.go([&, depth] { nest(depth + 1); });
        } else {
          group.go(wait_for_ever);
        }
        group.wait();
      } catch (const Cancelled&) {
        order.push_back(depth);
        throw;
      }
    };
    TaskGroup root;
    root.go([&] { nest(1); });
    until_idle();
    root.stop();
    root.wait();
    ASSERT_EQ(order.size(), static_cast<std::size_t>(kDepth));
    for (int i = 0; i < kDepth; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], kDepth - i);
  });
}

// TestCancelRemoves: a group, and a parent, forget those who have ended.
TEST(GoContext, ThoseWhoHaveEndedLeaveNothingInTheirParent) {
  run_each([] {
    TaskGroup parent;
    parent.set_limit(10);
    const auto come_and_go = [&](int count) {
      for (int i = 0; i < count; ++i) {
        parent.go([] {
          TaskGroup child;
          child.go([] {});
          child.wait();
        });
      }
      parent.wait();
    };
    come_and_go(rounds(400));
    constexpr int kFibers = rounds(4000);
    constexpr std::size_t kAllowed = std::size_t{64} * std::size_t{kFibers};
    // Each worker lays in a stock of fibers at some time; what is left behind grows every time.
    bool grows = true;
    for (int time = 0; grows && time < 5; ++time) {
      const std::size_t before = support::memory_in_use();
      come_and_go(kFibers);
      grows = support::memory_in_use() >= before + kAllowed;
    }
    EXPECT_FALSE(grows);
  });
}

// TestSimultaneousCancels: everybody stops everybody, on all workers at once.
TEST(GoContext, SimultaneousStopsOfATreeFromEverywhereCancelEachFiberOnce) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [] {
          for (int round = 0; round < rounds(100); ++round) {
            constexpr int kDepth = 3;
            Tree tree(kDepth);
            TaskGroup root;
            root.go([&] { tree.grow(1); });
            while (!tree.alive(tree.size() - 1)) yield();
            root.stop();
            TaskGroup stoppers;
            for (int i = 0; i < 4; ++i) stoppers.go([&] { root.stop(); });
            stoppers.wait();
            root.wait();
            for (std::size_t n = 1; n < tree.size(); ++n) EXPECT_FALSE(tree.alive(n));
          }
        },
        options);
  });
}

// TestInterlockedCancels: parent and child are stopped at the same instant, and a third fiber ends.
TEST(GoContext, StopsOfParentAndChildAtTheSameInstantDoNotWaitForEachOther) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [] {
          for (int round = 0; round < rounds(500); ++round) {
            std::atomic<int> unwound = 0;
            TaskGroup parent;
            TaskGroup other;
            const Channel<bool> ready(1);
            const Channel<bool> both(0);
            parent.go([&] {
              const AtExit one(unwound);
              TaskGroup child;
              child.go([&] {
                const AtExit another(unwound);
                ready.send(true);
                wait_for_ever();
              });
              child.go([&] {
                static_cast<void>(both.recv());
                child.stop();
              });
              child.wait();
            });
            static_cast<void>(ready.recv());
            other.go([&] {
              static_cast<void>(both.recv());
              parent.stop();
            });
            both.close();
            other.wait();
            parent.wait();
            EXPECT_EQ(unwound, 2);
          }
        },
        options);
  });
}

}  // namespace go_context_test
}  // namespace leat
