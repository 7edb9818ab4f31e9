#include "leat/csp/base/home_process.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>

#include "tests/support/child.h"

namespace leat {
namespace home_process_test {

// A thread of the parent may hold the lock at the moment of the fork: nobody unlocks the copy.
TEST(OfThisProcess, AChildHasAnObjectOfItsOwn) {
  using Locked = std::mutex;
  auto& parents = of_this_process<Locked>();
  const std::lock_guard guard(parents);
  EXPECT_EQ(support::in_child([&]() -> std::string {
              auto& own = of_this_process<Locked>();
              if (&own == &parents) return "it has the parent's";
              if (&own != &of_this_process<Locked>()) return "it has two";
              return own.try_lock() ? "" : "it is locked";
            }),
            "");
  EXPECT_EQ(&of_this_process<Locked>(), &parents);
}

}  // namespace home_process_test
}  // namespace leat
